"""Live streams: what happens to one job or to all, as it happens. Broken streams are resumed."""

import json
import random
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from hora.errors import HoraError, Json, ProblemError, ServiceUnavailable
from hora.service.calls import Calls
from hora.service.transport import api_path
from hora.service.waiting import AWAY_LIMIT_S

_AGAIN_S = 0.5  # the pause before a broken stream is resumed; it doubles
_LONGEST_S = 5.0


class LiveEvent(NamedTuple):
    """An event of a stream. The stream can be resumed after `id`, if it has one."""

    id: str | None
    event: str
    data: Json


class LiveCalls(Calls):
    """The requests for live streams."""

    def follow(
        self,
        job_id: str,
        *,
        include: Sequence[str] | None = None,
        logs_after: int | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[LiveEvent]:
        """The events of a job, from its start or after an event, until its `end`. Each event comes once.

        `include` names the kinds: `event` (a line of history), `state`, `progress`, `metrics`, `logs`. Without it the
        first three come. `logs_after` leaves out the lines of logs up to that id. A broken stream is resumed, also if
        the service is away for less than a minute. Raises `UnexpectedAnswer` if the service is too old for streams.
        """
        query = {"include": ",".join(include) if include is not None else None, "logs_after": logs_after}
        for event in self._follow(api_path("jobs", job_id, "events"), query, last_event_id):
            yield event
            if event.event == "end":
                return

    def follow_jobs(
        self,
        *,
        project: str | None = None,
        owner: str | None = None,
        label: str | None = None,
        last_event_id: str | None = None,
    ) -> Iterator[LiveEvent]:
        """The `state` of every job that changes, and the `progress` of running jobs, without an end.

        `label` is `key:value`. After a break the state of a job may come again; `revision` says which is newer.
        """
        query = {"project": project, "owner": owner, "label": label}
        yield from self._follow(api_path("events"), query, last_event_id)

    def _follow(self, path: str, query: Mapping[str, Any], last_event_id: str | None) -> Iterator[LiveEvent]:
        last_event_at, pause_s = time.monotonic(), _AGAIN_S
        while True:
            try:
                with self._wire.stream(path, query, last_event_id) as events:
                    if events is None:  # the last event was the end
                        return
                    for sent in events:
                        last_event_at, pause_s = time.monotonic(), _AGAIN_S
                        last_event_id = sent.id or last_event_id
                        if sent.data:
                            yield LiveEvent(last_event_id, sent.event, json.loads(sent.data))
            except HoraError as error:
                if not _is_away(error) or time.monotonic() - last_event_at > AWAY_LIMIT_S:
                    raise
            time.sleep(pause_s * random.uniform(1, 1.5))  # noqa: S311 - so that clients spread
            pause_s = min(2 * pause_s, _LONGEST_S)


def _is_away(error: HoraError) -> bool:
    return isinstance(error, ServiceUnavailable) or (isinstance(error, ProblemError) and error.status >= 500)
