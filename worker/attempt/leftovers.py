"""What earlier attempts of a job wrote and nobody lived to store: stored before the next attempt's own.

A supervisor that loses its lease stores nothing more, while its ranks may have saved a checkpoint that it has not told
of. The attempt that goes on from there fills the gap, under its own lease, or the curve would have a hole.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle.store import Lease
from worker.attempt.intake import Intake
from worker.attempt.paths import paths_of

_log = logging.getLogger(__name__)


def store_leftovers(sessions: Sessions, lease: Lease, runs_dir: Path, *, meanwhile: Callable[[], None]) -> None:
    """Store the rest of what lies on this host of the attempts before the one of `lease`. Raises `StaleLease`."""
    earlier = select(Attempt).where(Attempt.job_id == lease.job_id, Attempt.number < lease.number)
    with sessions() as session:
        attempts = session.scalars(earlier.order_by(Attempt.number)).all()
    for attempt in attempts:
        paths = paths_of(runs_dir, attempt.job_id, attempt.number)
        if not paths.records.is_dir():
            continue  # it ran elsewhere, or never
        earlier_lease = Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)
        intake = Intake(sessions, earlier_lease, paths, ranks=attempt.gpus, fenced_by=lease)
        if intake.has_new():
            _log.info("storing the records that attempt %d left", attempt.number, extra={"attempt": attempt.number})
            intake.drain(meanwhile=meanwhile)
