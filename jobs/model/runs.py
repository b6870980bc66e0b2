"""What the folder of a run says of it. A run trains one spec in jobs of Slurm, with no service.

`worker.alone` writes these two files beside the records and logs of the ranks: `run.json` once, and `attempt.json` in
the folder of each attempt, again at its end. Pure pydantic, no I/O.
"""

from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from jobs.model.spec import MAX_GPUS, Spec
from jobs.model.states import COMPLETE, EndReason

RUN_FILE = "run.json"
ATTEMPT_FILE = "attempt.json"


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
    """An attempt of a run: one job of Slurm. `reason` and `ended_at` are null while it trains."""

    number: Annotated[int, Field(ge=1, le=10_000)]
    slurm_job: Annotated[int, Field(ge=1, lt=2**63)]
    device: Literal["gpu", "cpu"]
    nodes: Annotated[list[RunNode], Field(min_length=1, max_length=MAX_GPUS)]
    started_at: AwareDatetime
    ended_at: AwareDatetime | None = None
    reason: EndReason | None = None
    error: Annotated[str, Field(max_length=10_000)] | None = None  # null after a good end

    @property
    def ranks(self) -> int:
        """The number of ranks on all nodes together."""
        return sum(node.ranks for node in self.nodes)

    @property
    def is_complete(self) -> bool:
        """Whether it trained to the end, so that nothing is left to train."""
        return self.reason in COMPLETE
