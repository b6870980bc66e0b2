"""Live streams: what a job, or all of them, tell as it happens. They are followed through whatever breaks them."""

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hora.errors import HoraError, Json, ProblemError, ServiceUnavailable
from hora.service.calls import Calls
from hora.service.transport import at
from hora.service.waiting import AWAY_LIMIT_S

_AGAIN_S = 0.5  # the pause before a stream that broke is asked for again; it doubles
_LONGEST_S = 5.0


class LiveEvent(NamedTuple):
    """An event of a stream. `id` is what goes on behind it; None where none does yet."""

    id: str | None
    event: str
    data: Json


class LiveCalls(Calls):
    """What is followed live."""

    def follow(
        self, job_id: str, *, include: Sequence[str] | None = None, last_event_id: str | None = None
    ) -> Iterator[LiveEvent]:
        """What a job tells, from its start or behind an event, until its `end`: each event once.

        `include` names the kinds: `event` (a line of history), `state`, `progress`, `metrics`, `logs`; the first three
        unless it is given. A stream that breaks is resumed; a service that goes away for less than a minute is waited
        for. Raises `UnexpectedAnswer` where the service is older than streams.
        """
        query = {"include": ",".join(include)} if include is not None else {}
        for told in self._follow(at("jobs", job_id, "events"), query, last_event_id):
            yield told
            if told.event == "end":
                return

    def follow_jobs(
        self,
        *,
        project: str | None = None,
        owner: str | None = None,
        label: str | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[LiveEvent]:
        """The `state` of every job that changes, and the `progress` of those that run, for ever.

        `label` is `key:value`. After a break a job may be told again; `revision` says what is news.
        """
        query = {"project": project, "owner": owner, "label": label}
        yield from self._follow(at("events"), query, last_event_id)

    def _follow(self, path: str, query: Mapping[str, Any], last_event_id: str | None) -> Iterator[LiveEvent]:
        heard_at, pause_s = time.monotonic(), _AGAIN_S
        while True:
            try:
                with self._wire.stream(path, query, last_event_id) as events:
                    if events is None:  # it was told to its end before
                        return
                    for one in events:
                        heard_at, pause_s = time.monotonic(), _AGAIN_S
                        last_event_id = one.id or last_event_id
                        if one.data:
                            yield LiveEvent(last_event_id, one.event, json.loads(one.data))
            except HoraError as error:
                if not _is_away(error) or time.monotonic() - heard_at > AWAY_LIMIT_S:
                    raise
            time.sleep(pause_s * random.uniform(1, 1.5))  # noqa: S311 - so that many do not come at once
            pause_s = min(2 * pause_s, _LONGEST_S)


def _is_away(error: HoraError) -> bool:
    return isinstance(error, ServiceUnavailable) or (isinstance(error, ProblemError) and error.status >= 500)
