"""The checkpoint of another job from which a job continues: `continue_from` of a spec. Pure."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jobs.model.problems import FieldProblem
from jobs.model.tasks import epoch_metrics

if TYPE_CHECKING:
    from jobs.model.spec import Spec

ORIGIN = r"^job:[0-9a-z]{1,32}(@[0-9]{1,6})?$"
_PARTS = re.compile(r"job:([0-9a-z]{1,32})(?:@([0-9]{1,6}))?")

# What decides the shapes of the variables, or which samples are trained on and which only validated.
_EQUAL_FIELDS = ("task", "seed", "precision")
_EQUAL_MODEL_FIELDS = ("name",)
_EQUAL_DATASET_FIELDS = (
    "source", "label", "text", "text_length", "vocabulary", "image_size", "validation", "fraction", "samples",
)  # fmt: skip


@dataclass(frozen=True)
class Origin:
    """A checkpoint of a job: the newest one of an epoch. Without an epoch, the newest that is kept."""

    job_id: str
    epoch: int | None = None

    def __str__(self) -> str:
        """As a spec names it."""
        return f"job:{self.job_id}" + ("" if self.epoch is None else f"@{self.epoch}")


def origin_of(text: str | None) -> Origin | None:
    """The checkpoint that `continue_from` names; None if it names none."""
    parts = _PARTS.fullmatch(text or "")
    return None if parts is None else Origin(parts[1], None if parts[2] is None else int(parts[2]))


def unlike(spec: "Spec", before: "Spec", job_id: str) -> list[FieldProblem]:
    """The fields that must be as in the job from which a job continues, and are not. `before` is that job's spec.

    A script knows itself what its checkpoint fits.
    """
    if spec.is_script or before.is_script:
        if spec.is_script and before.is_script:
            return []
        what = "runs its own code" if before.is_script else "was trained in Hora's own loop"
        return [FieldProblem("continue_from", f"job {job_id} {what}, and this job does not", spec.continue_from)]
    pairs = [
        *((name, getattr(spec, name), getattr(before, name)) for name in _EQUAL_FIELDS),
        *_pairs("model", spec.own_model, before.own_model, _EQUAL_MODEL_FIELDS),
        _frozen_pair(spec, before),
        *_pairs("dataset", spec.own_dataset, before.own_dataset, _EQUAL_DATASET_FIELDS),
        ("optimizer.name", spec.optimizer.name, before.optimizer.name),
        ("early_stopping.monitor", _watched(spec), _watched(before)),
    ]
    return [
        FieldProblem(field, f"must be {_text(theirs)} as in job {job_id}, from which this job continues", _text(own))
        for field, own, theirs in pairs
        if own != theirs
    ]


def _pairs(part: str, own: Any, theirs: Any, names: tuple[str, ...]) -> list[tuple[str, Any, Any]]:
    return [(f"{part}.{name}", getattr(own, name), getattr(theirs, name)) for name in names]


def _frozen_pair(spec: "Spec", before: "Spec") -> tuple[str, Any, Any]:
    """What decides whether the base is frozen. Without `weights` it never is, whatever `freeze_base` says."""
    own, theirs = spec.own_model.weights, before.own_model.weights
    if _is_frozen(spec) != _is_frozen(before) and "none" in (own, theirs):
        return "model.weights", own, theirs
    return "model.freeze_base", _is_frozen(spec), _is_frozen(before)


def _is_frozen(spec: "Spec") -> bool:
    return spec.own_model.freeze_base and spec.own_model.weights != "none"


def _watched(spec: "Spec") -> str | None:
    """The metric of which a checkpoint remembers the best value."""
    return spec.best_by(epoch_metrics(spec.task))


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "null"}[value]
    return "x".join(map(str, value)) if isinstance(value, tuple) else str(value)
