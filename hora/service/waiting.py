"""Waiting for the end of a job or a study, through restarts of the service. Used by `hora.service`."""

import time
from collections.abc import Callable

from hora.errors import HoraError, Json, ProblemError, ServiceUnavailable, WaitTimeout

AWAY_LIMIT_S = 60.0  # how long a service may give no answer

# Gets the tag of the last document. Returns the present one, or None if that is the same; and its tag.
Look = Callable[[str | None], tuple[Json | None, str | None]]


def wait_for_end(
    look: Look,
    name: str,
    *,
    noun: str,
    ended: Callable[[Json], bool],
    on_update: Callable[[Json], None] | None,
    on_unchanged: Callable[[], None] | None = None,
    timeout_s: float | None,
    period_s: float,
) -> Json:
    """The document of `look` once it has `ended`. Raises `WaitTimeout`.

    `on_update` gets each change, and `on_unchanged` is called after a look that finds none. `name` is the id of the
    thing, and `noun` says what it is.
    """
    started_at = last_answer_at = time.monotonic()
    etag: str | None = None
    latest: Json = {"id": name}
    while True:
        try:
            newer, etag = look(etag)
            last_answer_at = time.monotonic()
        except HoraError as error:
            if not _is_away(error) or time.monotonic() - last_answer_at > AWAY_LIMIT_S:
                raise
        else:
            if newer is not None:
                latest = newer
                if on_update is not None:
                    on_update(latest)
                if ended(latest):
                    return latest
            elif on_unchanged is not None:
                on_unchanged()
        if timeout_s is not None and time.monotonic() - started_at > timeout_s:
            raise WaitTimeout(latest, noun)
        time.sleep(period_s)


def _is_away(error: HoraError) -> bool:
    return isinstance(error, ServiceUnavailable) or (isinstance(error, ProblemError) and error.status >= 500)
