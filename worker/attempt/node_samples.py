"""Stores the samples that the members of an attempt take on nodes of Slurm. Used by the supervision.

On hosts of the service the worker's sampler does this, without the supervisor.
"""

import logging
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import DBAPIError

from jobs.db.engine import Sessions, is_away
from jobs.db.tables import Job
from jobs.lifecycle.leases import StaleLease, fence
from jobs.lifecycle.store import Lease
from jobs.telemetry.ingest import SampleRow, store_samples
from jobs.telemetry.sampled_metrics import SLOT_METRICS
from worker.attempt.members import Members, NodeSample

_log = logging.getLogger(__name__)
_MOST_KEPT = 6000  # while the database is away


class NodeSamples:
    """The samples of one attempt, from its members to the database."""

    def __init__(self, sessions: Sessions, lease: Lease, members: Members) -> None:
        self._sessions = sessions
        self._lease = lease
        self._members = members
        self._unstored: list[NodeSample] = []

    def store_new(self) -> None:
        """Store what came since the last call. Raises `StaleLease`, and `DBAPIError` if the database is away."""
        self._unstored = [*self._unstored, *self._members.take_samples()][-_MOST_KEPT:]
        if not self._unstored:
            return
        try:
            self._store()
        except StaleLease:
            raise
        except Exception as error:  # a sample that cannot be stored is worth no attempt
            if isinstance(error, DBAPIError) and is_away(error):
                raise
            _log.exception("samples of nodes are dropped")
        self._unstored = []

    def _store(self) -> None:
        with self._sessions.begin() as session:
            fence(session, self._lease)
            progress = session.scalar(select(Job.progress).where(Job.id == self._lease.job_id)) or {}
            store_samples(session, rows_of(self._lease, self._unstored, progress))


def rows_of(lease: Lease, samples: Sequence[NodeSample], progress: dict[str, Any]) -> list[SampleRow]:
    """The rows of samples. A rank has the slot of its place on its node. What is no number is left out."""
    return [
        SampleRow(
            job_id=lease.job_id,
            attempt=lease.number,
            rank=rank,
            at=datetime.fromtimestamp(sample.at, UTC),
            host=sample.node,
            slot=slot,
            step=progress.get("step"),
            epoch=progress.get("epoch"),
            values={name: value for name, value in values.items() if name in SLOT_METRICS and _is_number(value)},
        )
        for sample in samples
        for slot, (rank, values) in enumerate(sample.values_by_rank.items())
    ]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
