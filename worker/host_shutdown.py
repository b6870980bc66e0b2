"""Stops a host's jobs when its worker ends, for hosts where all processes end with the worker, such as containers.

Called by the worker after it was stopped, if `HORA_STOP_JOBS_WITH_WORKER` is set. `leave_list` comes last.
"""

import logging
import signal
import time
from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Slot
from jobs.model.preemption import PreemptionCause
from jobs.runtime.processes import ProcessId
from jobs.runtime.settings import Settings
from jobs.scheduling import draining, placing, registration
from jobs.scheduling.hosts import HostNotFound
from worker.attempt_keeper import supervisor_of

_log = logging.getLogger(__name__)
_PERIOD_S = 0.2
_STORING_S = 5.0  # for a supervisor to drain what its ranks wrote and store the end


def stop_jobs_of_host(sessions: Sessions, settings: Settings) -> bool:
    """Ask every attempt with ranks here to save, requeue and end. Wait for that. False if one takes too long."""
    try:
        supervisors, led_elsewhere = _ask_to_leave(sessions, settings)
    except DBAPIError as error:
        _log.warning("the jobs of this host cannot be asked to stop: %s", error.orig)
        return False
    grace_s = settings.save_grace_s + settings.sigterm_grace_s + settings.sigkill_grace_s + _STORING_S
    give_up_at = time.monotonic() + grace_s
    while running := sum(process.is_alive for process in supervisors) + _count_live(sessions, led_elsewhere):
        if time.monotonic() > give_up_at:
            _log.warning("%d attempts are still running", running, extra={"host": settings.host})
            return False
        time.sleep(_PERIOD_S)
    return True


def leave_list(sessions: Sessions, settings: Settings) -> None:
    """Remove the host from the list of hosts, unless it has a name of its own or is drained.

    Without `HORA_HOST_NAME` a container is named by its id. The container that replaces it has another id, so the host
    would stay in the list as a lost one. If the same container starts again, it registers again, but not as drained.
    """
    if settings.host_name is not None:
        return
    try:
        with sessions.begin() as session:
            if not draining.is_drained(session, settings.host):
                draining.forget(session, settings.host, host_timeout_s=settings.host_timeout_s)
    except (draining.HostInUse, HostNotFound, DBAPIError) as error:
        _log.warning("the host stays in the list: %s", error, extra={"host": settings.host})


def _ask_to_leave(sessions: Sessions, settings: Settings) -> tuple[list[ProcessId], Sequence[int]]:
    """Ask all attempts. Returns the supervisors of this host, and the attempts here whose lead is another host."""
    live = Attempt.ended_at.is_(None)
    led_here = select(Attempt).where(Attempt.host == settings.host, live)
    holding = select(Slot.attempt_id).where(Slot.host == settings.host, Slot.attempt_id.is_not(None))
    with sessions.begin() as session:
        # Otherwise their jobs would be placed here again at once.
        registration.leave(session, settings.host, host_timeout_s=settings.host_timeout_s)
        processes = map(supervisor_of, session.scalars(led_here))
        supervisors = [process for process in processes if process is not None]
        elsewhere = select(Attempt.id).where(Attempt.id.in_(holding), Attempt.host != settings.host, live)
        led_elsewhere = session.scalars(elsewhere).all()
        placing.request_preemption(session, led_elsewhere, PreemptionCause.shutting_down(settings.host))
    attempts = len(supervisors) + len(led_elsewhere)
    _log.info("%d attempts are asked to save and stop", attempts, extra={"host": settings.host})
    for process in supervisors:
        process.signal(signal.SIGTERM)
    return supervisors, led_elsewhere


def _count_live(sessions: Sessions, attempts: Sequence[int]) -> int:
    """How many of the attempts have not ended; 0 while the database is away."""
    if not attempts:
        return 0
    try:
        with sessions() as session:
            live = select(func.count()).where(Attempt.id.in_(attempts), Attempt.ended_at.is_(None))
            return session.scalar(live) or 0
    except DBAPIError:
        return 0
