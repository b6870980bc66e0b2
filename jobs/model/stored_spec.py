"""The form in which rows hold specs, so that versions of Hora can work side by side.

Called by whoever writes a spec into a row or tells specs apart by a digest, and by the view of a job. Pure.
"""

from collections.abc import Mapping
from typing import Any

from jobs.model.dataset_fields import DatasetSpec
from jobs.model.spec import Spec

# The fields that came after the first release.
_LATER_FIELDS = (
    "gpu_model", "gpu_memory_gb", "mixed_gpus", "jit", "allreduce", "code", "command", "params", "env", "environment",
    "requirements", "goal", "pool", "after", "idle", "accumulate", "schedule", "weight_decay", "clip_norm",
    "label_smoothing", "class_weights", "validation_steps", "task", "strategy", "alerts", "continue_from",
)  # fmt: skip
_LATER_DATASET_FIELDS = ("samples", "balance", "augment_mode", "text", "text_length", "vocabulary")


def stored_spec(spec: Spec, **chosen: Any) -> dict[str, Any]:
    """The document of a spec for a row, without later fields that have their default.

    A worker of the version before refuses a field that it does not know, and a digest of the document stays what it
    was. `chosen` are arguments of pydantic's `model_dump`.
    """
    document = spec.model_dump(mode="json", **chosen)
    for name in _LATER_FIELDS:
        if getattr(spec, name) == Spec.model_fields[name].default:
            document.pop(name, None)
    for name in _LATER_DATASET_FIELDS if document.get("dataset") else ():
        if getattr(spec.dataset, name) == DatasetSpec.model_fields[name].default:
            document["dataset"].pop(name, None)
    if (document.get("probe") or {}).get("smallest", 0) is None:
        del document["probe"]["smallest"]  # the version before refuses null, and its own default is near
    return document


def with_defaults(document: Mapping[str, Any]) -> dict[str, Any]:
    """A stored spec with every later field."""
    whole = {**_LATER_DEFAULTS, **document}
    if whole.get("dataset"):
        missing = {name: value for name, value in _LATER_DATASET_DEFAULTS.items() if name not in whole["dataset"]}
        whole["dataset"] = {**whole["dataset"], **missing}
    if whole.get("probe"):
        whole["probe"] = {"smallest": None, **whole["probe"]}
    return whole


_LATER_DEFAULTS = Spec.model_construct().model_dump(mode="json", include=set(_LATER_FIELDS))
_LATER_DATASET_DEFAULTS = {name: DatasetSpec.model_fields[name].default for name in _LATER_DATASET_FIELDS}


def later_default(*path: str) -> Any:
    """What `with_defaults` fills in for `NAME` or `dataset NAME`; None where that is null or nothing."""
    *above, name = path
    return (_LATER_DATASET_DEFAULTS if above else _LATER_DEFAULTS).get(name)


def later_dataset_defaults() -> dict[str, Any]:
    """What `with_defaults` fills in for fields of a dataset."""
    return dict(_LATER_DATASET_DEFAULTS)
