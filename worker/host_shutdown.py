"""Taking a host's jobs along when its worker ends: where every process ends with it, as in a container.

Called by the worker when it was told to stop, if `HORA_STOP_JOBS_WITH_WORKER` says so.
"""

import logging
import signal
import time
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Slot
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import placing, registration
from worker.agent import supervisor_of

_log = logging.getLogger(__name__)
_PERIOD_S = 0.2
_STORING_S = 5.0  # for a supervisor to drain what its ranks wrote and store the end


def leave(sessions: Sessions, settings: Settings) -> bool:
    """Ask every attempt with ranks here to save, requeue and end, and wait for that; False where one takes too long."""
    try:
        supervisors, led_elsewhere = _asked(sessions, settings)
    except DBAPIError as error:
        _log.warning("the jobs of this host are not asked to leave: %s", error.orig)
        return False
    grace_s = settings.save_grace_s + settings.sigterm_grace_s + settings.sigkill_grace_s + _STORING_S
    give_up_at = time.monotonic() + grace_s
    while left := sum(process.is_alive for process in supervisors) + _live(sessions, led_elsewhere):
        if time.monotonic() > give_up_at:
            _log.warning("%d attempts are left behind", left, extra={"host": settings.host})
            return False
        time.sleep(_PERIOD_S)
    return True


def _asked(sessions: Sessions, settings: Settings) -> tuple[list[ProcessId], Sequence[int]]:
    """The supervisors of this host, and the attempts that have only a share of it; all have been asked."""
    live = Attempt.ended_at.is_(None)
    here = select(Attempt).where(Attempt.host == settings.host, live)
    held = select(Slot.attempt_id).where(Slot.host == settings.host, Slot.attempt_id.is_not(None))
    with sessions.begin() as session:
        # Or their jobs would be placed here again at once.
        registration.leave(session, settings.host, host_timeout_s=settings.host_timeout_s)
        supervisors = [found for attempt in session.scalars(here) if (found := supervisor_of(attempt)) is not None]
        elsewhere = session.scalars(select(Attempt.id).where(Attempt.id.in_(held), Attempt.host != settings.host, live))
        led_elsewhere = elsewhere.all()
        placing.request_preemption(session, led_elsewhere, f"host {settings.host} is shutting down")
    asked = len(supervisors) + len(led_elsewhere)
    _log.info("%d attempts are asked to leave", asked, extra={"host": settings.host})
    for process in supervisors:
        process.signal(signal.SIGTERM)
    return supervisors, led_elsewhere


def _live(sessions: Sessions, attempts: Sequence[int]) -> int:
    """How many of the attempts have not ended; none where nobody can tell."""
    if not attempts:
        return 0
    try:
        with sessions() as session:
            live = select(func.count()).where(Attempt.id.in_(attempts), Attempt.ended_at.is_(None))
            return session.scalar(live) or 0
    except DBAPIError:
        return 0
