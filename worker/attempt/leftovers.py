"""Stores what earlier attempts of a job wrote and no supervisor stored, before the next attempt stores its own lines.

A supervisor that loses its lease stores nothing more. But its ranks may have saved a checkpoint after the last stored
line. The attempt that continues from that checkpoint fills the gap under its own lease. Otherwise the curve would
have a hole.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.intake.intake import Intake
from jobs.lifecycle.store import Lease
from worker.attempt.paths import paths_of
from worker.attempt.unsent_lines import take_unsent_lines

_log = logging.getLogger(__name__)


def store_leftovers(sessions: Sessions, lease: Lease, runs_dir: Path, *, meanwhile: Callable[[], None]) -> None:
    """Store the unstored lines of attempts before that of `lease`, from this host's files. Raises `StaleLease`."""
    earlier = select(Attempt).where(Attempt.job_id == lease.job_id, Attempt.number < lease.number)
    with sessions() as session:
        attempts = session.scalars(earlier.order_by(Attempt.number)).all()
    for attempt in attempts:
        paths = paths_of(runs_dir, attempt.job_id, attempt.number)
        if not paths.records.is_dir():
            continue  # it ran on another host, or not at all
        take_unsent_lines(paths, meanwhile=meanwhile)
        earlier_lease = Lease(attempt.id, str(attempt.token), attempt.job_id, attempt.number)
        intake = Intake(sessions, earlier_lease, paths, ranks=attempt.gpus, fenced_by=lease)
        if intake.has_new():
            _log.info("storing the records that attempt %d left", attempt.number, extra={"attempt": attempt.number})
            intake.drain(meanwhile=meanwhile)
