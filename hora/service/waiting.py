"""Waiting for the end of a job or a study, through restarts of the service. Used by `hora.service`."""

import time
from collections.abc import Callable

from hora.errors import HoraError, Json, ProblemError, ServiceUnavailable, WaitTimeout

AWAY_LIMIT_S = 60.0  # for how long a service that gives no answer is borne

# Asked with the tag of what was seen last: what it is now, or None where that is the same; and its tag.
Look = Callable[[str | None], tuple[Json | None, str | None]]


def wait_for_end(
    look: Look,
    name: str,
    *,
    noun: str,
    ended: Callable[[Json], bool],
    on_update: Callable[[Json], None] | None,
    timeout_s: float | None,
    period_s: float,
) -> Json:
    """What `look` gives once it has `ended`; `on_update` gets each change. Raises `WaitTimeout`.

    `name` is its id, and `noun` says what it is.
    """
    begun = last_seen = time.monotonic()
    etag: str | None = None
    seen: Json = {"id": name}
    while True:
        try:
            newer, etag = look(etag)
            last_seen = time.monotonic()
        except HoraError as error:
            if not _is_away(error) or time.monotonic() - last_seen > AWAY_LIMIT_S:
                raise
        else:
            if newer is not None:
                seen = newer
                if on_update is not None:
                    on_update(seen)
                if ended(seen):
                    return seen
        if timeout_s is not None and time.monotonic() - begun > timeout_s:
            raise WaitTimeout(seen, noun)
        time.sleep(period_s)


def _is_away(error: HoraError) -> bool:
    return isinstance(error, ServiceUnavailable) or (isinstance(error, ProblemError) and error.status >= 500)
