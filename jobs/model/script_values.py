"""The values that placeholders in a script's command stand for. Pure; used by admission and by the launcher."""

from typing import Any

from jobs.model.plan import Plan
from jobs.model.spec import Spec


def placeholders(
    spec: Spec, plan: Plan, *, train: str | None, validation: str | None, artifacts: str
) -> dict[str, Any]:
    """The values by dotted name, for `jobs.model.script_fields.filled_in`.

    `batch_size` is the batch of one rank and `learning_rate` the scaled rate: those of the plan. The paths are those of
    the host; a part of the data that does not exist has an empty text. Without data there are no paths.
    """
    of_data = {"dataset.train": train or "", "dataset.validation": validation or ""}
    steps = {} if spec.dataset is None and plan.steps_per_epoch is None else {"steps_per_epoch": plan.steps_per_epoch}
    return {
        **{f"params.{name}": value for name, value in _flat(spec.params).items()},
        "gpus": plan.gpus,
        "batch_size": plan.per_gpu_batch,
        "global_batch": plan.global_batch,
        "learning_rate": plan.learning_rate,
        "base_learning_rate": plan.base_learning_rate,
        "lr_factor": plan.lr_factor,
        "warmup_epochs": plan.warmup_epochs,
        "epochs": plan.epochs,
        "seed": spec.seed,
        **steps,
        **(of_data if spec.dataset is not None else {}),
        "artifacts": artifacts,
    }


def _flat(params: dict[str, Any], above: str = "") -> dict[str, Any]:
    """Every value of a JSON object by its dotted name, inner objects too."""
    values: dict[str, Any] = {}
    for name, value in params.items():
        values[above + name] = value
        if isinstance(value, dict):
            values |= _flat(value, f"{above}{name}.")
    return values
