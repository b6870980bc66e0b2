"""Whether the ranks of an attempt make steps, and whether one is gone. Used by the supervision of an attempt."""

import time
from collections.abc import Collection

from jobs.intake.intake import Intake
from jobs.model.states import COMPLETE
from jobs.runtime.processes import ProcessId
from worker.attempt.processes import is_stopped


class RankWatch:
    """Watches the ranks: those of all hosts by their records, those on the lead host also by their processes.

    Pids of other hosts mean nothing here. Ranks there count as gone when they have written their exit record. A rank of
    a script that completed is not gone while others work or have yet to start: they may not need it. Without
    `started_at` a stall counts from the first step, because a script that reports nothing cannot stall; but it can once
    a rank has completed.
    """

    def __init__(self, intake: Intake, lead_ranks: Collection[int], *, ranks: int, started_at: float | None) -> None:
        self._intake = intake
        self._lead_ranks = lead_ranks
        self._ranks = ranks  # on all hosts
        self._last_step_at = started_at  # a step of any rank
        self._gone_at: float | None = None
        self._first_done_at: float | None = None  # a rank of a script
        self._processes: dict[int, ProcessId | None] = {}  # of the lead's ranks; None: it was gone at the first look

    @property
    def _done(self) -> set[int]:
        """The ranks of a script that completed, while others work or have yet to start."""
        exits = self._intake.exits if self._intake.is_script else {}
        done = {rank for rank, exit_ in exits.items() if exit_.reason in COMPLETE}
        return done if len(done) < self._ranks else set()

    def note_step(self) -> None:
        """Note that a rank has made a step, or goes on in another way."""
        self._last_step_at = time.monotonic()

    def stall(self, limit_s: float) -> str | None:
        """A sentence about the stall if no rank has made a step for `limit_s`. None once a rank is gone."""
        done = self._done
        if done and self._first_done_at is None:
            self._first_done_at = time.monotonic()
        last_at = max((at for at in (self._last_step_at, self._first_done_at) if at is not None), default=None)
        if last_at is None or time.monotonic() - last_at <= limit_s or self._intake.exits.keys() - done:
            return None
        stopped_ranks = [str(rank) for rank in self._lead_ranks if is_stopped(self._intake.pids.get(rank, 0))]
        note = f"; stopped by a signal: rank {', '.join(stopped_ranks)}" if stopped_ranks else ""
        return f"no step from any rank for {limit_s:g} s{note}"

    def one_is_gone_for(self, limit_s: float) -> bool:
        """Whether a rank has been gone for `limit_s`."""
        for rank, pid in self._intake.pids.items():
            if rank in self._lead_ranks and rank not in self._processes:
                self._processes[rank] = ProcessId.of(pid)
        dead = {rank for rank, process in self._processes.items() if process is None or not process.is_alive}
        if not (dead | self._intake.exits.keys()) - self._done:
            self._gone_at = None
        elif self._gone_at is None:
            self._gone_at = time.monotonic()
        return self._gone_at is not None and time.monotonic() - self._gone_at > limit_s
