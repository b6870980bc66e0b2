"""Proposes the batch and the rate to train with, by what was measured. Pure; called by `trainer.probe`."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Literal

from jobs.model.plan import SCALING_OF_OPTIMIZER, batches_in_batch_size, lr_factor, own_batch_of
from jobs.model.records import ProbeFindings, ProbePoint
from jobs.model.spec import Spec
from trainer.probing.knee import find_knee

EndedBy = Literal["largest", "memory", "data", "time"]

_MOST_AT_ONCE = 8  # times the rate: a larger change needs a probe in between
_LEAST_STEPS = 10  # of an epoch; with fewer steps, throughput does not decide the training time
_MUCH_WAITING = 0.2  # share of the time


@dataclass(frozen=True)
class _Proposal:
    point: ProbePoint
    reason: str


def findings_of(points: Sequence[ProbePoint], ended_by: EndedBy, spec: Spec, *, train_samples: int) -> ProbeFindings:
    """The findings of a probe of `spec`."""
    fitting = list(takewhile(lambda point: point.fits, points))
    if not fitting:
        return ProbeFindings(points=list(points), ended_by=ended_by, why=_nothing(points, spec))
    knee = find_knee([_throughput(point) for point in fitting])
    at_limit = _at_knee(fitting, knee) if knee is not None else _at_end(fitting, ended_by)
    proposal = _with_enough_steps(at_limit, fitting, spec, train_samples)
    per_gpu_batch = proposal.point.per_gpu_batch
    rate, why_rate = _rate_for(per_gpu_batch, spec)
    return ProbeFindings(
        points=list(points),
        ended_by=ended_by,
        knee_batch=None if knee is None else fitting[knee].per_gpu_batch,
        largest_batch=fitting[-1].per_gpu_batch,
        batch_size=per_gpu_batch * batches_in_batch_size(spec),
        learning_rate=rate,
        why=" ".join(filter(None, (proposal.reason, why_rate, _waiting(proposal.point)))),
    )


def _nothing(points: Sequence[ProbePoint], spec: Spec) -> str:
    smallest = spec.probe.batches(own_batch_of(spec))[0] if spec.probe else 0
    why = "does not fit the memory" if points else "of each GPU is more than the training data has"
    return f"No batch was measured: the smallest one, {smallest}, {why}. Lower probe.smallest."


def _at_knee(fitting: Sequence[ProbePoint], knee: int) -> _Proposal:
    point, best = fitting[knee], max(fitting, key=_throughput)
    figures = f"{_throughput(point):,.0f} samples/s with a batch of {point.per_gpu_batch} per GPU"
    if best is point:
        return _Proposal(point, f"Throughput is best at {figures}.")
    rest = f"the best was {_throughput(best):,.0f} with {best.per_gpu_batch}"
    return _Proposal(point, f"Throughput flattens at {figures}; {rest}.")


def _at_end(fitting: Sequence[ProbePoint], ended_by: EndedBy) -> _Proposal:
    last = fitting[-1]
    figures = f"{_throughput(last):,.0f} samples/s with a batch of {last.per_gpu_batch} per GPU"
    if len(fitting) > 1:
        figures += f", {_throughput(last) / _throughput(fitting[-2]):.2f} times that of {fitting[-2].per_gpu_batch}"
    twice = 2 * last.per_gpu_batch
    end = {
        "memory": f"a batch of {twice} does not fit",
        "data": f"a batch of {twice} per GPU is more than the training data has",
        "largest": f"{twice} was not tried; raise probe.largest to see",
        "time": "its steps take longer than probe.seconds; raise it to see further",
    }[ended_by]
    return _Proposal(last, f"Throughput grows to the end: {figures}; {end}.")


def _with_enough_steps(at_limit: _Proposal, fitting: Sequence[ProbePoint], spec: Spec, train_samples: int) -> _Proposal:
    """The proposal, or a smaller batch where an epoch would be over in a few steps."""

    def steps_with(point: ProbePoint) -> int:
        return train_samples // (point.global_batch * spec.accumulate)

    if spec.steps_per_epoch is not None or steps_with(at_limit.point) >= _LEAST_STEPS:
        return at_limit
    spec_batch = own_batch_of(spec)
    allowed = [point for point in fitting if steps_with(point) >= _LEAST_STEPS or point.per_gpu_batch <= spec_batch]
    point = min(at_limit.point, (allowed or fitting[:1])[-1], key=lambda point: point.per_gpu_batch)
    if point is at_limit.point:
        return at_limit
    few, steps = steps_with(at_limit.point), steps_with(point)
    why = f"But then an epoch would be {few} step{'s' * (few != 1)}; with {point.per_gpu_batch} it is {steps}."
    return _Proposal(point, f"{at_limit.reason} {why}")


def _rate_for(per_gpu_batch: int, spec: Spec) -> tuple[float, str]:
    """The rate for a batch of one GPU, to 3 digits, and why; as the spec's `learning_rate` means it."""
    spec_batch = own_batch_of(spec)
    if per_gpu_batch == spec_batch:
        return spec.learning_rate, "The spec has that batch already."
    if spec.lr_scaling != "none" and spec.base_batch is not None:
        return spec.learning_rate, f"The rate follows by itself: lr_scaling is {spec.lr_scaling}, base_batch is given."
    rule = SCALING_OF_OPTIMIZER[spec.optimizer.name]
    full_factor = lr_factor(rule, global_batch=per_gpu_batch, base_batch=spec_batch)
    factor = min(full_factor, _MOST_AT_ONCE)
    rate = float(f"{spec.learning_rate * factor:.3g}")
    why = f"The batch changes from {spec_batch} per GPU by {per_gpu_batch / spec_batch:g}, so the rate by {factor:.3g}"
    why += f" ({'linear' if rule == 'linear' else 'square root'} for {spec.optimizer.name}"
    why += f"; {full_factor:.3g} is too much at once)" if full_factor > factor else ")"
    return rate, why + ("; warm it up." if rule == "linear" and factor > 1 else ".")


def _waiting(point: ProbePoint) -> str | None:
    wait_s = point.data_wait_s or 0.0
    share = wait_s / (wait_s + (point.step_time_s or 0.0)) if wait_s else 0.0
    if share < _MUCH_WAITING:
        return None
    return f"{_percent(share)} of the time goes into waiting for data, which is not in these figures."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _throughput(point: ProbePoint) -> float:
    assert point.samples_per_s is not None  # of a batch that fits
    return point.samples_per_s
