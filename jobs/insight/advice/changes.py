"""Changes to a spec that the rules of advice propose, merged into the spec as in a clone. Pure.

A change contains only fields whose value differs from the spec's.
"""

from collections.abc import Mapping
from typing import Any

from jobs.lifecycle.admission import unsupported
from jobs.lifecycle.site_policy import SitePolicy
from jobs.model.documents import merged
from jobs.model.plan import SCALING_OF_OPTIMIZER, DatasetSizes, Plan, UnworkablePlan, lr_factor, resolve_plan
from jobs.model.problems import InvalidSpec
from jobs.model.spec import Spec, spec_from

Change = dict[str, Any]

_WARMUP_EPOCHS = 3
_WARMUP_SHARE = 5  # of so many epochs one at most


def changed(spec: Spec, change: Mapping[str, Any]) -> Spec | None:
    """The spec with a change; None if that is invalid."""
    try:
        return spec_from(merged(spec.model_dump(mode="json"), change))
    except InvalidSpec:
        return None


def plan_of(spec: Spec, sizes: DatasetSizes | None) -> Plan | None:
    """The plan; None if the spec does not fit the data."""
    try:
        return resolve_plan(spec, sizes)
    except UnworkablePlan:
        return None


def is_possible(spec: Spec, change: Mapping[str, Any], site: SitePolicy, sizes: DatasetSizes | None) -> bool:
    """Whether the change makes a different spec that can be run."""
    other = changed(spec, change)
    return other is not None and other != spec and not unsupported(other, site) and plan_of(other, sizes) is not None


def times_batch(spec: Spec, factor: int) -> Change:
    """A batch `factor` times as large, with a rate that grows with it, at most by the same factor."""
    return _new(spec, {"batch_size": spec.batch_size * factor, **_growing_rate(spec), **_as_many_samples(spec, factor)})


def times_gpus(spec: Spec, factor: int) -> Change:
    """`factor` times the GPUs. If each keeps its batch, the rate grows with the global batch, else it stays."""
    grows = spec.batch_per == "gpu"
    follows = {**_growing_rate(spec), **_as_many_samples(spec, factor)} if grows else _same_rate(spec)
    return _new(spec, {"gpus": spec.gpus * factor, **follows})


def half_gpus(spec: Spec) -> Change:
    """Half the GPUs. If they share one batch, the rate stays."""
    gpus = spec.gpus // 2
    too_many = spec.min_gpus is not None and spec.min_gpus > gpus
    follows = _as_many_samples(spec, 1 / 2) if spec.batch_per == "gpu" else _same_rate(spec)
    return _new(spec, {"gpus": gpus, **({"min_gpus": gpus} if too_many else {}), **follows})


def smaller_batch(spec: Spec, batch_size: int) -> Change:
    """A smaller batch, with a rate that shrinks with it."""
    ratio = batch_size / spec.batch_size
    change = {"batch_size": batch_size, **_as_many_samples(spec, ratio)}
    if spec.lr_scaling != "none":  # the policy lowers the rate, given the batch that the rate belongs to
        return _new(spec, {**change, "base_batch": _base_batch(spec)})
    policy = SCALING_OF_OPTIMIZER[spec.optimizer.name]
    rate = spec.learning_rate * lr_factor(policy, global_batch=batch_size, base_batch=spec.batch_size)
    return _new(spec, {**change, "learning_rate": float(f"{rate:.3g}")})


def more_batches(spec: Spec, factor: int) -> Change:
    """Batches of a GPU that are `factor` times smaller, and so many more of them in a step. The rate stays."""
    change = {"accumulate": spec.accumulate * factor, **_same_rate(spec)}
    return _new(spec, change if spec.batch_per == "global" else change | {"batch_size": spec.batch_size // factor})


def lower_rate(spec: Spec, learning_rate: float) -> Change:
    """A lower rate. A scaled rate gets a warm-up of some epochs."""
    warmup = warmup_of(spec) if spec.lr_scaling != "none" else spec.warmup_epochs
    return _new(spec, {"learning_rate": float(f"{learning_rate:.3g}"), "warmup_epochs": warmup})


def warmup_of(spec: Spec) -> int:
    """A few epochs of warm-up, or as many as the spec has."""
    return max(spec.warmup_epochs, min(_WARMUP_EPOCHS, max(1, spec.epochs // _WARMUP_SHARE)))


def _growing_rate(spec: Spec) -> Change:
    """Makes the rate follow the batch, from the rate at the spec's own batch."""
    policy = SCALING_OF_OPTIMIZER[spec.optimizer.name] if spec.lr_scaling == "none" else spec.lr_scaling
    return {"lr_scaling": policy, "base_batch": _base_batch(spec), "warmup_epochs": warmup_of(spec)}


def _same_rate(spec: Spec) -> Change:
    """Keeps the rate while the global batch stays: else the new batch per GPU would become a policy's base."""
    return {} if spec.lr_scaling == "none" else {"base_batch": _base_batch(spec)}


def _as_many_samples(spec: Spec, factor: float) -> Change:
    """Keeps the samples of an epoch with another batch size, if the spec sets the steps of an epoch."""
    return {} if spec.steps_per_epoch is None else {"steps_per_epoch": max(1, round(spec.steps_per_epoch / factor))}


def _base_batch(spec: Spec) -> int:
    """The batch that the spec's rate belongs to; without a policy it is the current global batch."""
    plan = resolve_plan(spec, None)
    return plan.global_batch if spec.lr_scaling == "none" else plan.base_batch


def _new(spec: Spec, change: Change) -> Change:
    return {name: value for name, value in change.items() if getattr(spec, name) != value}
