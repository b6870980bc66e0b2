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
    PRUNED = "pruned"
    CANCELLED = "cancelled"
    DEPENDENCY = "dependency"
    RANK_FAILED = "rank_failed"
    OUT_OF_MEMORY = "out_of_memory"
    STALLED = "stalled"
    TIME_LIMIT = "time_limit"
    LAUNCH_FAILED = "launch_failed"
    HOST_LOST = "host_lost"
    LEASE_EXPIRED = "lease_expired"
    NO_SPACE = "no_space"
    NO_DEVICE = "no_device"
    NO_STORE = "no_store"
    PREEMPTED = "preempted"
    PAUSED = "paused"
    IDLE = "idle"
    BAD_DATA = "bad_data"
    SCRIPT_FAILED = "script_failed"
    DIVERGED = "diverged"
    WEIGHTS_DIFFER = "weights_differ"
    INTERNAL_ERROR = "internal_error"

    @property
    def outcome(self) -> "Outcome":
        """What an attempt that ended for this reason means for its job."""
        return _END_REASONS[self][0]

    @property
    def meaning(self) -> str:
        """When an attempt ends for this reason, as docs/states.md says it."""
        return _END_REASONS[self][1]


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
_END_REASONS: dict[EndReason, tuple[Outcome, str]] = {
    EndReason.COMPLETED: (_DONE, "every epoch is done, or the script exited with 0 on every rank"),
    EndReason.EARLY_STOPPED: (_DONE, "the monitored metric stopped improving"),
    EndReason.PRUNED: (_DONE, "its [search](studies.md#pruning) ended it early, because other trials were better"),
    EndReason.CANCELLED: (Outcome(_S.CANCELLED), "a person cancelled the job"),
    EndReason.DEPENDENCY: (
        Outcome(_S.CANCELLED),
        "a job that it was waiting for failed or was cancelled, so no attempt began",
    ),
    EndReason.RANK_FAILED: (_RETRIED, "a rank died, or a script that had saved a checkpoint failed"),
    EndReason.OUT_OF_MEMORY: (
        _FINAL,
        "the batch does not fit into the device's memory, or a script took more memory than it may",
    ),
    EndReason.STALLED: (_RETRIED, "no step of any rank for `stall_timeout_s`"),
    EndReason.TIME_LIMIT: (_FINAL, "the attempt took longer than `time_limit_s`"),
    EndReason.LAUNCH_FAILED: (_RETRIED, "no rank came up"),
    EndReason.HOST_LOST: (
        _NOT_ITS_FAULT,
        "a host stopped sending heartbeats, was cut off from the others, or was shut down",
    ),
    EndReason.LEASE_EXPIRED: (
        _NOT_ITS_FAULT,
        "the supervisor died, was stopped, or could not reach the database for longer than its lease",
    ),
    EndReason.NO_SPACE: (_NOT_ITS_FAULT, "a folder of its host was full, or could not be written"),
    EndReason.NO_DEVICE: (_FINAL, "a rank could not use the GPU that it was given"),
    EndReason.NO_STORE: (
        _NOT_ITS_FAULT,
        "the store could not be reached, and only there is what the attempt starts from",
    ),
    EndReason.PREEMPTED: (
        _NOT_ITS_FAULT,
        "it released its slots: for a job of higher priority, for one that it passed, for Slurm, or for a drain",
    ),
    EndReason.PAUSED: (_NOT_ITS_FAULT, "a person paused the job, or [`idle`](idle.md) says so: nobody used its slots"),
    EndReason.IDLE: (Outcome(_S.CANCELLED), "[`idle`](idle.md) says so: nobody used its slots"),
    EndReason.BAD_DATA: (_FINAL, "the data cannot be read, or does not fit the spec"),
    EndReason.SCRIPT_FAILED: (
        _FINAL,
        "the script failed before it saved a checkpoint, so that another attempt would do the same",
    ),
    EndReason.DIVERGED: (_FINAL, "the loss became NaN or infinite in Hora's own training loop"),
    EndReason.WEIGHTS_DIFFER: (
        _FINAL,
        "the ranks of a script ended with [different weights](scripts.md#the-weights-of-all-ranks)",
    ),
    EndReason.INTERNAL_ERROR: (_FINAL, "the trainer failed in a way that another attempt would repeat"),
}

COMPLETE = frozenset(reason for reason in EndReason if reason.outcome is _DONE)  # when all ranks report one of these
# One rank that reports one of these explains the whole attempt. When ranks report several, the first in this list wins.
FAULTS_OF_A_RANK = (
    EndReason.NO_SPACE, EndReason.NO_DEVICE, EndReason.BAD_DATA, EndReason.OUT_OF_MEMORY, EndReason.SCRIPT_FAILED,
    EndReason.DIVERGED, EndReason.INTERNAL_ERROR, EndReason.WEIGHTS_DIFFER,
)  # fmt: skip
# Its host failed: what watched over the attempt went away, or there was no space, or no store.
LOST = frozenset({EndReason.HOST_LOST, EndReason.LEASE_EXPIRED, EndReason.NO_SPACE, EndReason.NO_STORE})


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
    CHECKPOINT_SKIPPED = "checkpoint_skipped"
    CHECKPOINT_COPIED = "checkpoint_copied"  # to the store
    CHECKPOINT_FETCHED = "checkpoint_fetched"  # from the store
    COPIES_BEHIND = "copies_behind"
    WAITS_FOR_FILES = "waits_for_files"
    OUT_OF_SPACE = "out_of_space"
    ATTEMPT_ENDED = "attempt_ended"
    REQUEUED = "requeued"
    CANCEL_REQUESTED = "cancel_requested"
    PAUSE_REQUESTED = "pause_requested"
    RESUMED = "resumed"
    PREEMPT_REQUESTED = "preempt_requested"
    CHANGED = "changed"  # by a person: its name, priority, time limit, labels, notes, star, archive or project
    IDLE_WARNED = "idle_warned"
    IDLE_WITHDRAWN = "idle_withdrawn"  # the warning
    IDLE_ACTED = "idle_acted"
    PRUNE_REQUESTED = "prune_requested"  # by its search
    ALERT = "alert"  # of its script, or of a rule in its spec
    ENDED = "ended"


class SlotState(StrEnum):
    """Whether a slot can be leased."""

    FREE = "free"
    LEASED = "leased"
    QUARANTINED = "quarantined"  # a process of an ended attempt is still on it
    UNHEALTHY = "unhealthy"  # its GPU is off the bus, or reports errors
    IN_USE_BY_OTHERS = "in_use_by_others"  # processes that do not belong to Hora compute on its GPU
    RETIRED = "retired"  # its host no longer has it
