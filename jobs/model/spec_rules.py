"""The rules of a spec over two fields, and those for scripts. Pure; `jobs.model.spec.Spec` is made on them.

A rule over two fields is checked at the later one, so that the answer names a field.
"""

from typing import Any

from pydantic import ValidationInfo, field_validator, model_validator
from pydantic_core import PydanticCustomError

from jobs.model.alert_rules import AlertRule, condition_of
from jobs.model.dataset_fields import DatasetSpec
from jobs.model.problems import wrong_inner_field
from jobs.model.recipe_fields import ScheduleSpec
from jobs.model.script_fields import LOOP_DATASET_FIELDS, MOST_COMMAND_BYTES
from jobs.model.spec_parts import (
    AllreduceSpec,
    CheckpointSpec,
    EarlyStopping,
    GoalSpec,
    ModelSpec,
    SpecPart,
)
from jobs.model.tasks import CLASSIFICATION, DEFAULT_METRICS, AnyTask, epoch_metrics, no_such_metric


class SpecRules(SpecPart):
    """What is checked of a spec beyond the type of each field. The fields are those of `Spec`."""

    @model_validator(mode="before")
    @classmethod
    def _defaults_of_script(cls, document: Any) -> Any:
        if isinstance(document, dict) and document.get("code") is not None:
            return {"model": None, "early_stopping": None, **document}
        return document

    @field_validator("command", check_fields=False)
    @classmethod
    def _comes_with_code(cls, command: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if "code" not in info.data:  # it has a problem of its own
            return command
        if info.data["code"] is not None and command is None:
            raise ValueError("code needs a command: the program and its arguments, such as [python, train.py]")
        if info.data["code"] is None and command is not None:
            raise ValueError("there is no code to run it in: send an archive with POST /v1/code, or use `hora run`")
        if command is not None:
            if not command[0].strip():
                raise ValueError("the first text is the program, and it is empty")
            if sum(map(len, command)) > MOST_COMMAND_BYTES:
                raise ValueError(f"may have {MOST_COMMAND_BYTES} characters in all")
        return command

    @field_validator("params", "env", "requirements", check_fields=False)
    @classmethod
    def _only_for_scripts(cls, value: object, info: ValidationInfo) -> object:
        if value and info.data.get("code", "") is None:
            raise ValueError(f"{info.field_name} is for scripts, and there is no code")
        return value

    @field_validator("environment", check_fields=False)
    @classmethod
    def _environment_of_script(cls, environment: str, info: ValidationInfo) -> str:
        if environment != "default" and info.data.get("code", "") is None:
            raise ValueError("environment is for scripts, and there is no code")
        return environment

    @field_validator("dataset", check_fields=False)
    @classmethod
    def _fits_who_reads_it(cls, dataset: DatasetSpec | None, info: ValidationInfo) -> DatasetSpec | None:
        if info.data.get("code", "") is None and dataset is None:
            raise PydanticCustomError("missing", "is required")
        if info.data.get("code") and dataset is not None:
            for name in LOOP_DATASET_FIELDS:
                if (value := getattr(dataset, name)) != DatasetSpec.model_fields[name].default:
                    message = "a script reads its data itself, so this has no effect: hand it over in params"
                    raise wrong_inner_field(name, value, message)
        return dataset

    @field_validator("model", check_fields=False)
    @classmethod
    def _is_given_unless_script(cls, model: ModelSpec | None, info: ValidationInfo) -> ModelSpec | None:
        if info.data.get("code", "") is None and model is None:
            raise ValueError("only a script has no model")
        if info.data.get("code") and model is not None:
            raise ValueError("a script builds its own model: hand its name over in params")
        return model

    @field_validator(
        "task", "accumulate", "schedule", "optimizer", "weight_decay", "clip_norm", "label_smoothing", "class_weights",
        "validation_steps", "strategy", "precision", "jit", "allreduce", "probe", check_fields=False,
    )  # fmt: skip
    @classmethod
    def _is_of_the_own_loop(cls, value: object, info: ValidationInfo) -> object:
        if info.data.get("code") and value != cls.model_fields[str(info.field_name)].default:
            raise ValueError("a script trains in its own loop, so this has no effect: hand it over in params")
        return value

    @field_validator("probe", check_fields=False)
    @classmethod
    def _begins_by_itself(cls, probe: object, info: ValidationInfo) -> object:
        if probe is not None and info.data.get("continue_from") is not None:
            raise ValueError("a probe trains nothing further: leave out continue_from")
        return probe

    @field_validator("checkpoint", check_fields=False)
    @classmethod
    def _saves_when_the_script_does(cls, checkpoint: CheckpointSpec, info: ValidationInfo) -> CheckpointSpec:
        if info.data.get("code") and checkpoint.every_epochs != CheckpointSpec().every_epochs:
            message = "a script decides itself when to save, so this has no effect: hand it over in params"
            raise wrong_inner_field("every_epochs", checkpoint.every_epochs, message)
        return checkpoint

    @field_validator("goal", check_fields=False)
    @classmethod
    def _is_reported(cls, goal: GoalSpec | None, info: ValidationInfo) -> GoalSpec | None:
        if goal is not None and info.data.get("code", "") is None:
            _require_epoch_metric("metric", goal.metric, info)
        return goal

    @field_validator("alerts", check_fields=False)
    @classmethod
    def _are_of_reported_metrics(cls, alerts: list[AlertRule], info: ValidationInfo) -> list[AlertRule]:
        for place, rule in enumerate(alerts):
            if rule.when is not None and info.data.get("code", "") is None:
                _require_epoch_metric(f"{place}.when", condition_of(rule.when).metric, info)
        return alerts

    @field_validator("early_stopping", check_fields=False)
    @classmethod
    def _monitors_what_is_reported(cls, stopping: EarlyStopping | None, info: ValidationInfo) -> EarlyStopping | None:
        if stopping is None or "code" not in info.data:
            return stopping
        goal: GoalSpec | None = info.data.get("goal")
        if info.data["code"] is None:
            if "monitor" in stopping.model_fields_set:
                _require_epoch_metric("monitor", stopping.monitor, info)
                return stopping
            task: AnyTask = info.data.get("task", "auto")
            default = DEFAULT_METRICS[CLASSIFICATION if task == "auto" else task]
            return stopping.model_copy(update={"monitor": default if goal is None else goal.metric})
        if "restore_best_weights" in stopping.model_fields_set and stopping.restore_best_weights:
            message = "a script keeps its weights itself: leave this out"
            raise wrong_inner_field("restore_best_weights", stopping.restore_best_weights, message)
        if "monitor" not in stopping.model_fields_set and goal is None:
            raise ValueError("say which metric of the script to monitor: set monitor here, or goal")
        monitor = stopping.monitor if "monitor" in stopping.model_fields_set or goal is None else goal.metric
        return stopping.model_copy(update={"monitor": monitor, "restore_best_weights": False})

    @field_validator("mixed_gpus", check_fields=False)
    @classmethod
    def _are_alike_for_one_process(cls, mixed_gpus: bool, info: ValidationInfo) -> bool:
        if mixed_gpus and info.data.get("strategy") == "mirrored":
            raise ValueError("must be false with the strategy mirrored: it takes GPUs of one model")
        return mixed_gpus

    @field_validator("allreduce", check_fields=False)
    @classmethod
    def _is_between_ranks(cls, allreduce: AllreduceSpec, info: ValidationInfo) -> AllreduceSpec:
        if allreduce != AllreduceSpec() and info.data.get("strategy") == "mirrored":
            raise ValueError("has no effect with the strategy mirrored, which averages within its one process")
        return allreduce

    @field_validator("placement", check_fields=False)
    @classmethod
    def _one_process_has_one_host(cls, placement: str, info: ValidationInfo) -> str:
        if info.data.get("strategy") != "mirrored":
            return placement
        if placement == "spread":
            raise ValueError("must be single_host with the strategy mirrored, whose one process cannot spread")
        return "single_host"

    @field_validator("min_gpus", check_fields=False)
    @classmethod
    def _no_more_than_gpus(cls, min_gpus: int | None, info: ValidationInfo) -> int | None:
        gpus = info.data.get("gpus")
        if min_gpus is not None and gpus is not None and min_gpus > gpus:
            raise ValueError(f"min_gpus is {min_gpus}, more than gpus ({gpus})")
        return min_gpus

    @field_validator("gpu_model", "gpu_memory_gb", "mixed_gpus", check_fields=False)
    @classmethod
    def _only_with_gpus(cls, value: object, info: ValidationInfo) -> object:
        if value and info.data.get("device") == "cpu":
            raise ValueError(f"{info.field_name} chooses GPUs, but device is cpu")
        return value

    @field_validator("batch_size", check_fields=False)
    @classmethod
    def _divides_over_gpus(cls, batch_size: int, info: ValidationInfo) -> int:
        gpus = info.data.get("gpus")
        if info.data.get("batch_per") == "global" and gpus and batch_size % gpus:
            raise ValueError(f"a global batch of {batch_size} does not divide by {gpus} gpus")
        return batch_size

    @field_validator("accumulate", check_fields=False)
    @classmethod
    def _divides_the_batch(cls, accumulate: int, info: ValidationInfo) -> int:
        batch, gpus = info.data.get("batch_size"), info.data.get("gpus")
        if info.data.get("batch_per") == "global" and batch and gpus and batch % (gpus * accumulate):
            raise ValueError(f"a global batch of {batch} does not divide by {gpus} gpus x {accumulate} batches")
        return accumulate

    @field_validator("schedule", check_fields=False)
    @classmethod
    def _watches_what_is_reported(cls, schedule: ScheduleSpec, info: ValidationInfo) -> ScheduleSpec:
        if schedule.monitor is not None:
            _require_epoch_metric("monitor", schedule.monitor, info)
        return schedule


def _require_epoch_metric(field: str, metric: str, info: ValidationInfo) -> None:
    task: AnyTask = info.data.get("task", "auto")
    names = epoch_metrics(task)
    if metric not in names:
        raise wrong_inner_field(field, metric, no_such_metric(metric, names, task))
