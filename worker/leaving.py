"""Taking a host's jobs along when its worker ends: where every process ends with it, as in a container.

Called by the worker when it was told to stop, if `HORA_STOP_JOBS_WITH_WORKER` says so.
"""

import logging
import signal
import time

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from jobs import registration
from jobs.database import Sessions
from jobs.processes import ProcessId
from jobs.settings import Settings
from jobs.tables import Attempt
from worker.agent import supervisor_of

_log = logging.getLogger(__name__)
_PERIOD_S = 0.1
_STORING_S = 5.0  # for a supervisor to drain what its ranks wrote and store the end


def leave(sessions: Sessions, settings: Settings) -> bool:
    """Ask every supervisor of this host to save, requeue and end, and wait for that; False where one takes too long."""
    try:
        supervisors = _asked(sessions, settings)
    except DBAPIError as error:
        _log.warning("the jobs of this host are not asked to leave: %s", error.orig)
        return False
    grace_s = settings.save_grace_s + settings.sigterm_grace_s + settings.sigkill_grace_s + _STORING_S
    give_up_at = time.monotonic() + grace_s
    while alive := [process for process in supervisors if process.is_alive]:
        if time.monotonic() > give_up_at:
            _log.warning("%d supervisors are left behind", len(alive), extra={"host": settings.host})
            return False
        time.sleep(_PERIOD_S)
    return True


def _asked(sessions: Sessions, settings: Settings) -> list[ProcessId]:
    here = select(Attempt).where(Attempt.host == settings.host, Attempt.ended_at.is_(None))
    with sessions.begin() as session:
        # Or their jobs would be placed here again at once.
        registration.leave(session, settings.host, host_timeout_s=settings.host_timeout_s)
        supervisors = [found for attempt in session.scalars(here) if (found := supervisor_of(attempt)) is not None]
    _log.info("%d supervisors are asked to leave", len(supervisors), extra={"host": settings.host})
    for process in supervisors:
        process.signal(signal.SIGTERM)
    return supervisors
