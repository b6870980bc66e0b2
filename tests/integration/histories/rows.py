"""The rows of the database at one moment. The checks compare them with the rows of the moment before."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Row, bindparam, select

from jobs.db.tables import Attempt, Host, Job, JobEvent, Slot

_JOBS = select(
    Job.id, Job.status, Job.end_reason, Job.error, Job.progress, Job.gpus, Job.priority, Job.attempt, Job.restarts,
    Job.losses, Job.queued_at, Job.not_before, Job.paused_at, Job.cancel_requested_at, Job.created_at, Job.started_at,
    Job.ended_at, Job.revision, Job.level, Job.slot_seconds,
).order_by(Job.created_at)  # fmt: skip
_ATTEMPTS = select(
    Attempt.id, Attempt.job_id, Attempt.number, Attempt.token, Attempt.host, Attempt.shares, Attempt.gpus,
    Attempt.due_at, Attempt.preempt_requested_at, Attempt.preemption.label("preemption"), Attempt.lease_expires_at,
    Attempt.supervisor_pid, Attempt.created_at, Attempt.claimed_at, Attempt.started_at, Attempt.ended_at,
    Attempt.end_reason, Attempt.error,
).order_by(Attempt.id)  # fmt: skip
_SLOTS = select(
    Slot.host, Slot.index, Slot.attempt_id, Slot.rank, Slot.quarantined_at, Slot.retired_at, Slot.unhealthy,
    Slot.in_use_by_others,
).order_by(Slot.host, Slot.index)  # fmt: skip
_HOSTS = select(Host.name, Host.heartbeat_at, Host.drained_at).order_by(Host.name)
_EVENTS = (
    select(JobEvent.id, JobEvent.job_id, JobEvent.kind, JobEvent.attempt, JobEvent.data)
    .where(JobEvent.id > bindparam("after"))
    .order_by(JobEvent.id)
)


@dataclass(frozen=True)
class Rows:
    """All rows except the events, each by its key."""

    now: datetime
    jobs: Mapping[str, Row[Any]]
    attempts: Mapping[int, Row[Any]]
    slots: Mapping[tuple[str, int], Row[Any]]
    hosts: Mapping[str, Row[Any]]

    @property
    def live(self) -> Sequence[Row[Any]]:
        """The attempts that have not ended."""
        return [attempt for attempt in self.attempts.values() if attempt.ended_at is None]

    def attempts_of(self, job_id: str) -> Sequence[Row[Any]]:
        """A job's attempts, first to newest."""
        return [attempt for attempt in self.attempts.values() if attempt.job_id == job_id]

    def held_by(self, attempt_id: int) -> dict[tuple[str, int], int | None]:
        """The slots that an attempt holds, and the rank that each is for."""
        return {key: slot.rank for key, slot in self.slots.items() if slot.attempt_id == attempt_id}

    def is_free(self, key: tuple[str, int]) -> bool:
        """Whether a slot may be leased."""
        slot = self.slots[key]
        taken = slot.attempt_id, slot.quarantined_at, slot.retired_at, slot.unhealthy, self.hosts[slot.host].drained_at
        return set(taken) == {None} and not slot.in_use_by_others

    def is_same_as(self, other: "Rows") -> bool:
        """Whether every row equals that of `other`; the time does not count."""
        return (self.jobs, self.attempts, self.slots, self.hosts) == (
            other.jobs, other.attempts, other.slots, other.hosts,
        )  # fmt: skip


def read_rows(connection: Connection, now: datetime, *, events_after: int) -> tuple[Rows, Sequence[Row[Any]]]:
    """All rows, and the events after the one with this id. The connection must be in autocommit mode."""
    rows = Rows(
        now,
        {row.id: row for row in connection.execute(_JOBS)},
        {row.id: row for row in connection.execute(_ATTEMPTS)},
        {(row.host, row.index): row for row in connection.execute(_SLOTS)},
        {row.name: row for row in connection.execute(_HOSTS)},
    )
    return rows, connection.execute(_EVENTS, {"after": events_after}).all()


def planned_slots(attempt: Row[Any]) -> dict[tuple[str, int], int]:
    """The slots that an attempt was placed on, and the rank of each, by its own row."""
    slots = [(share["host"], index) for share in attempt.shares for index in share["slots"]]
    return {slot: rank for rank, slot in enumerate(slots)}
