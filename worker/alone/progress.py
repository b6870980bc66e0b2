"""Follows the records of the ranks, and says in lines for people how far they are."""

import time
from collections.abc import Callable, Mapping

from jobs.intake.tail import MAX_READ_BYTES, Tail
from jobs.model.plan import Plan
from jobs.model.records import (
    EpochEnded,
    Planned,
    RankExited,
    RankNote,
    RankStarted,
    Record,
    StepEnded,
    UnexplainedExit,
    parse_record,
    rank_records_name,
)
from jobs.model.states import COMPLETE
from worker.attempt.notes import read_notes
from worker.attempt.paths import AttemptPaths


class Progress:
    """What the ranks have written so far. `say` prints a line."""

    def __init__(self, paths: AttemptPaths, *, ranks: int, say: Callable[[str], None]) -> None:
        self._tails = {
            rank: Tail(paths.records / rank_records_name(rank), longest=MAX_READ_BYTES) for rank in range(ranks)
        }
        self._records = paths.records
        self._notes: Mapping[int, RankNote] = {}
        self._say = say
        self.plan: Plan | None = None
        self.started: set[int] = set()
        self.exits: dict[int, RankExited] = {}
        self.moved_at = time.monotonic()  # when a rank last made a step, or waited for space

    def read(self, *, final: bool = False) -> bool:
        """Read what is new. Returns whether there was anything."""
        is_new = False
        for rank, tail in self._tails.items():
            lines, after = tail.read(final=final)
            is_new |= after != tail.offset
            tail.offset = after
            for line in lines:
                if (record := parse_record(line)) is not None:
                    self._take(rank, record)
        if not is_new:
            self._look_at_notes()
        return is_new

    def _look_at_notes(self) -> None:
        """On a full disk records wait in memory. Notes show that the ranks go on, or wait for space."""
        before, self._notes = self._notes, read_notes(self._records, self._tails)
        if any(note.why is not None and note != before.get(rank) for rank, note in self._notes.items()):
            self.moved_at = time.monotonic()

    def read_rest(self) -> None:
        """Read to the end, when no rank writes any more."""
        while self.read():
            pass
        self.read(final=True)

    def _take(self, rank: int, record: Record) -> None:
        match record:
            case RankStarted():
                self.started.add(rank)
            case StepEnded():
                self.moved_at = time.monotonic()
            case RankExited():
                self.exits[rank] = record
                if record.reason not in COMPLETE and record.reason is not UnexplainedExit.STOP_REQUESTED:
                    self._say(f"rank {rank} left: {record.reason}" + (f": {record.message}" if record.message else ""))
            case Planned() if rank == 0:
                self.plan = record.plan
                self._say(_plan_line(record))
            case EpochEnded() if rank == 0:
                self.moved_at = time.monotonic()
                self._say(_epoch_line(record, self.plan))


def _plan_line(record: Planned) -> str:
    plan = record.plan
    steps = "" if plan.steps_per_epoch is None else f", {plan.steps_per_epoch} steps an epoch"
    begins = f"goes on after step {record.start_step}" if record.start_step else "begins"
    return f"{begins}: a global batch of {plan.global_batch}{steps}, a learning rate of {plan.learning_rate:.4g}"


def _epoch_line(record: EpochEnded, plan: Plan | None) -> str:
    of = "" if plan is None else f" of {plan.epochs}"
    metrics = ", ".join(f"{name} {value:.4g}" for name, value in record.metrics.items())
    return f"epoch {record.epoch}{of}: {metrics}; {record.wall_s:.1f} s, {record.samples_per_s:,.0f} samples/s"
