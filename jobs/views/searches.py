"""Searches: studies whose values are chosen while they run. Requests and answers of the API."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, JsonValue

from jobs.model.goals import METRIC_NAME
from jobs.model.states import EndReason, Status

MOST_TRIALS = 1000
MOST_PARALLEL = 100


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class PruneSpec(_Part):
    """When a trial is ended before its last epoch."""

    name: Literal["asha", "median"] = Field(
        description="`asha`: at each rung only the best third of the trials goes on. `median`: a trial ends when it is"
        " worse than the median of the complete ones. See [pruning](studies.md#pruning)."
    )
    min_epochs: int | None = Field(
        None,
        ge=1,
        le=100_000,
        description="The epochs that each trial may train: the first rung. `null`: a quarter of the epochs"
        " of the base; 1 for a script that does not say its epochs.",
    )
    reduction: int = Field(
        3,
        ge=2,
        le=10,
        description="For `asha`: one in so many trials goes on, and the next rung has so many times the epochs.",
    )


class SearchSpec(_Part):
    """How the values of the trials are chosen, and which trials end early."""

    method: Literal["random", "tpe", "grid"] = Field(
        "tpe",
        description="`tpe`: from what earlier trials reached ([why](decisions/0045-a-search-remembers-nothing.md))."
        " `random`: by chance. `grid`: every combination.",
    )
    trials: int | None = Field(
        None,
        ge=1,
        le=MOST_TRIALS,
        description="The number of trials, at most 1,000. `null` is only allowed for a `grid`: all combinations.",
    )
    parallel: int = Field(
        2,
        ge=1,
        le=MOST_PARALLEL,
        description="How many trials wait or train at once. With more of them, `tpe` knows less about each choice.",
    )
    objective: str | None = Field(
        None,
        pattern=METRIC_NAME,
        description="The metric to search by. `null`: the [goal](studies.md#the-goal). A script without a goal must"
        " name it.",
    )
    mode: Literal["min", "max"] | None = Field(
        None, description="Whether less of it is better. `null`: as its name says; less is better of losses and errors."
    )
    space: dict[str, JsonValue] = Field(
        min_length=1,
        max_length=50,
        description="What may be chosen for each field: a list of values, `{log: [1.0e-4, 0.1]}`, `{uniform: [0, 0.5]}`"
        " or `{int: [1, 8]}`. `{int: [16, 512], log: true}` chooses whole numbers by their logarithm. See"
        " [the space](studies.md#the-space).",
    )
    prune: Annotated[
        PruneSpec | None,
        BeforeValidator(
            lambda value: {"name": value} if isinstance(value, str) else value,
            json_schema_input_type=Literal["asha", "median"] | PruneSpec | None,
        ),
    ] = Field(
        None,
        description="Which trials [end early](studies.md#pruning): `asha`, `median`, or an object with figures. `null`:"
        " none.",
    )


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class TrialReport(_Frozen):
    """A trial of a search: a job with values that were chosen."""

    number: int = Field(description="From 0. It is also the position of the trial's cell")
    values: dict[str, Any]
    status: Status
    end_reason: EndReason | None
    objective: float | None = Field(description="The best value of any epoch. Null: it has none, or has not ended")
    epochs: int | None = Field(description="The last epoch that reported the objective")
    pruned_at_epoch: int | None = Field(description="The epoch whose value ended it. Null: it was not pruned")
    job_id: str


class SearchReport(_Frozen):
    """What a search looks for."""

    method: str
    objective: str
    mode: Literal["min", "max"]
    trials: int = Field(description="The number of trials that the search has in the end")
