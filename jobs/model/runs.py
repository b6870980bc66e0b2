"""What the folder of a run says of it. A run trains one spec in jobs of Slurm, with no service.

`worker.alone` writes two files beside the records and logs of the ranks: `run.json` once, and `attempt.json` in the
folder of each attempt, again at its end. `hora import` sends them to the service as an `ExportedRun`, and what the
ranks wrote as many `RunText`. Pure pydantic, no I/O.
"""

from datetime import datetime
from itertools import pairwise
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from jobs.model.spec import MAX_GPUS, Spec
from jobs.model.states import COMPLETE, EndReason

RUN_FILE = "run.json"
ATTEMPT_FILE = "attempt.json"
MOST_ATTEMPTS = 1000
MOST_RANKS = 65_536  # of all attempts together
MOST_IN_ERROR = 10_000
MOST_TEXT = 1024 * 1024  # characters of what ranks wrote, in one line that is sent
MOST_LINE_BYTES = 8 * MOST_TEXT  # of the same as JSON
MOST_HEAD_BYTES = 2 * 1024 * 1024  # of the run itself, with its attempts
LAUNCHER = -1  # in place of a rank: what horovodrun printed


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Run(_Part):
    """A run: its id, and what it trains."""

    id: Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]  # made at random with its folder
    version: Annotated[str, Field(max_length=64)]  # of Hora
    created_at: AwareDatetime
    spec: Spec


class RunNode(_Part):
    """A node of an attempt, and how many ranks ran on it."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=255)]
    ranks: Annotated[int, Field(ge=1, le=MAX_GPUS)]


class RunAttempt(_Part):
    """An attempt of a run: one job of Slurm. `reason` and `ended_at` are null until it writes its end."""

    number: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]
    slurm_job: Annotated[int, Field(ge=1, lt=2**63)]
    device: Literal["gpu", "cpu"]
    nodes: Annotated[list[RunNode], Field(min_length=1, max_length=MAX_GPUS, fail_fast=True)]
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    reason: EndReason | None = None
    error: Annotated[str, Field(max_length=MOST_IN_ERROR)] | None = None  # null after a good end

    @field_validator("nodes")
    @classmethod
    def _are_those_of_a_job(cls, nodes: list[RunNode]) -> list[RunNode]:
        names = set[str]()
        for node in nodes:
            if node.name in names:
                raise ValueError(f"{node.name} is there twice")
            names.add(node.name)
        if (ranks := sum(node.ranks for node in nodes)) > MAX_GPUS:
            raise ValueError(f"an attempt may have at most {MAX_GPUS} ranks, and not {ranks}")
        return nodes

    @property
    def ranks(self) -> int:
        """The number of ranks on all nodes together."""
        return sum(node.ranks for node in self.nodes)

    @property
    def is_complete(self) -> bool:
        """Whether it trained to the end, so that nothing is left to train."""
        return self.reason in COMPLETE

    def with_end(self, at: datetime, reason: EndReason, error: str | None) -> "RunAttempt":
        """The same with its end. It never ends before it started: the clock of its node may have been set back."""
        error = error and error[:MOST_IN_ERROR]
        return self.model_copy(update={"ended_at": max(at, self.started_at), "reason": reason, "error": error})

    def lost(self, last_written_at: datetime | None) -> "RunAttempt":
        """The same with the end that it could not write itself: it ended with its last record."""
        error = "Slurm ended the job at once, or its storage was full: it could not write how it ended"
        return self.with_end(last_written_at or self.started_at, EndReason.HOST_LOST, error)


class ExportedRun(_Part):
    """A run with all its attempts, which have ended: the first line of what `hora import` sends."""

    run: Run
    attempts: Annotated[list[RunAttempt], Field(min_length=1, max_length=MOST_ATTEMPTS)]

    @field_validator("run")
    @classmethod
    def _trains_in_the_own_loop(cls, run: Run) -> Run:
        if run.spec.is_script or run.spec.probe is not None:
            raise ValueError("a run has no code of its own, and is no batch probe")
        return run

    @field_validator("attempts")
    @classmethod
    def _have_ended_one_after_the_other(cls, attempts: list[RunAttempt]) -> list[RunAttempt]:
        for number, attempt in enumerate(attempts, 1):
            if attempt.number != number:
                raise ValueError(f"attempt {number} is missing")
            if attempt.ended_at is None or attempt.reason is None:
                raise ValueError(f"attempt {number} has not ended: import the run when it has")
            if attempt.ended_at < attempt.started_at:
                raise ValueError(f"attempt {number} ended before it started")
        if sum(attempt.ranks for attempt in attempts) > MOST_RANKS:
            raise ValueError(f"all attempts together may have at most {MOST_RANKS} ranks")
        for earlier, later in pairwise(attempts):
            if earlier.is_complete:
                raise ValueError(f"attempt {earlier.number} trained to the end, and there is a later one")
            if earlier.ended_at is not None and later.started_at < earlier.ended_at:
                raise ValueError(f"attempt {later.number} started before attempt {earlier.number} ended")
        return attempts


class RunText(_Part):
    """Some text that a rank of an attempt, or its launcher, wrote next: each further line of what is sent."""

    attempt: Annotated[int, Field(ge=1, le=MOST_ATTEMPTS)]
    kind: Literal["records", "log"]
    rank: Annotated[int, Field(ge=LAUNCHER, lt=MAX_GPUS)]
    text: Annotated[str, Field(max_length=MOST_TEXT)]
