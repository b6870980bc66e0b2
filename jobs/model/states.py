"""The states of a job, why an attempt ends, and what follows from that.

    queued -> launching -> running -> succeeded | failed | cancelled
    launching | running -> queued     when an attempt is lost or failed and restarts are left

One table each; everything else is derived. `jobs.lifecycle.store.transition` is the only writer of a status.
"""

from dataclasses import dataclass
from enum import StrEnum


class Status(StrEnum):
    """Where a job stands."""

    QUEUED = "queued"
    LAUNCHING = "launching"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


_S = Status
NEXT: dict[Status, frozenset[Status]] = {
    _S.QUEUED: frozenset({_S.LAUNCHING, _S.CANCELLED}),
    _S.LAUNCHING: frozenset({_S.RUNNING, _S.QUEUED, _S.FAILED, _S.CANCELLED}),
    _S.RUNNING: frozenset({_S.SUCCEEDED, _S.QUEUED, _S.FAILED, _S.CANCELLED}),
    _S.SUCCEEDED: frozenset(),
    _S.FAILED: frozenset(),
    _S.CANCELLED: frozenset(),
}
SOURCES = {to: frozenset(status for status, ends in NEXT.items() if to in ends) for to in Status}
TERMINAL = frozenset(status for status, ends in NEXT.items() if not ends)
ACTIVE = frozenset({_S.LAUNCHING, _S.RUNNING})  # holds an attempt and its slots


class EndReason(StrEnum):
    """Why an attempt ended, and with the last attempt the job."""

    COMPLETED = "completed"
    EARLY_STOPPED = "early_stopped"
    CANCELLED = "cancelled"
    RANK_FAILED = "rank_failed"  # a rank died, or a peer of a dead one gave up
    OUT_OF_MEMORY = "out_of_memory"
    STALLED = "stalled"  # no step from any rank for stall_timeout_s
    TIME_LIMIT = "time_limit"
    LAUNCH_FAILED = "launch_failed"  # no rank came up
    HOST_LOST = "host_lost"  # its host stopped sending heartbeats
    LEASE_EXPIRED = "lease_expired"  # its supervisor stopped renewing
    PREEMPTED = "preempted"  # it made room: for a job of higher priority, or on a host that is drained
    PAUSED = "paused"  # a person asked it to wait
    BAD_DATA = "bad_data"
    INTERNAL_ERROR = "internal_error"

    @property
    def outcome(self) -> "Outcome":
        """What an attempt that ended for this reason means for its job."""
        return _OUTCOME[self]


@dataclass(frozen=True)
class Outcome:
    """The job's next status when it is not restarted, whether it may be, and whether that uses up a restart."""

    status: Status
    retried: bool = False
    counts: bool = False


_DONE = Outcome(_S.SUCCEEDED)
_FINAL = Outcome(_S.FAILED)
_RETRIED = Outcome(_S.FAILED, retried=True, counts=True)
_NOT_ITS_FAULT = Outcome(_S.FAILED, retried=True, counts=False)
_OUTCOME = {
    EndReason.COMPLETED: _DONE,
    EndReason.EARLY_STOPPED: _DONE,
    EndReason.CANCELLED: Outcome(_S.CANCELLED),
    EndReason.RANK_FAILED: _RETRIED,
    EndReason.OUT_OF_MEMORY: _FINAL,
    EndReason.STALLED: _RETRIED,
    EndReason.TIME_LIMIT: _FINAL,
    EndReason.LAUNCH_FAILED: _RETRIED,
    EndReason.HOST_LOST: _NOT_ITS_FAULT,
    EndReason.LEASE_EXPIRED: _NOT_ITS_FAULT,
    EndReason.PREEMPTED: _NOT_ITS_FAULT,
    EndReason.PAUSED: _NOT_ITS_FAULT,
    EndReason.BAD_DATA: _FINAL,
    EndReason.INTERNAL_ERROR: _FINAL,
}

LOST = frozenset({EndReason.HOST_LOST, EndReason.LEASE_EXPIRED})  # what watched over the attempt went away


def status_after(reason: EndReason, *, cancel_requested: bool, restarts: int, max_restarts: int) -> Status:
    """The job's status after an attempt that ended for `reason`; a requested cancel wins over everything.

    `restarts` is how many counted restarts the job has had.
    """
    outcome = reason.outcome
    if cancel_requested:
        return Status.CANCELLED
    if outcome.retried and (not outcome.counts or restarts < max_restarts):
        return Status.QUEUED
    return outcome.status


class EventKind(StrEnum):
    """What a job's history can say."""

    SUBMITTED = "submitted"
    PLACED = "placed"
    LAUNCHED = "launched"
    RANK_STARTED = "rank_started"
    FIRST_STEP = "first_step"
    EPOCH_ENDED = "epoch_ended"
    CHECKPOINT_SAVED = "checkpoint_saved"
    ATTEMPT_ENDED = "attempt_ended"
    REQUEUED = "requeued"
    CANCEL_REQUESTED = "cancel_requested"
    PAUSE_REQUESTED = "pause_requested"
    RESUMED = "resumed"
    PREEMPT_REQUESTED = "preempt_requested"
    ENDED = "ended"


class SlotState(StrEnum):
    """Whether a slot can be leased."""

    FREE = "free"
    LEASED = "leased"
    QUARANTINED = "quarantined"  # a process of an ended attempt is still on it
    RETIRED = "retired"  # its host no longer has it
