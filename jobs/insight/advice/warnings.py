"""What speaks against a job before it is submitted, a sentence each. Pure.

Called by `jobs.insight.advice.quote` with the job's quote. Each warning has figures that it rests on; where they are
missing, nothing is said.
"""

from collections.abc import Iterator, Sequence
from statistics import median

from jobs.insight.advice.past import PastJob
from jobs.model.plan import Plan
from jobs.model.spec import Spec
from jobs.views.advice import Quote

HALF_OF_A_DOUBLING = 1.5  # of the ideal 2 it is what is left when a second set of GPUs brings half of what it could
FEWEST_STEPS = 10  # an epoch with fewer updates hardly trains, and leaves out up to a tenth of its samples
_MANY_EPOCHS = 20  # with so many, the epochs after the best one are worth a rule that ends them
_LATE = 0.5  # the share of the epochs after which past jobs were at their best, below which the rest is in vain


def warnings_about(
    spec: Spec, plan: Plan, quote: Quote | None, alike: Sequence[PastJob], *, hosts: int = 1
) -> list[str]:
    """Every warning. `hosts` is over how many the job would go at least."""
    if spec.probe is not None:
        return []
    return [
        *_doubling(spec, quote),
        *_time(spec, quote),
        *_epochs(spec, alike),
        *_memory(plan, alike),
        *_steps(spec, plan),
        *_boundary(spec, hosts),
    ]


def _doubling(spec: Spec, quote: Quote | None) -> Iterator[str]:
    gain = None if quote is None else quote.doubling_gain
    if gain is not None and gain < HALF_OF_A_DOUBLING:
        yield (
            f"Going from {spec.gpus // 2} to {spec.gpus} GPUs brought {gain:.2g} times the throughput in past jobs: "
            "less than half of what a second set of GPUs could bring."
        )


def _time(spec: Spec, quote: Quote | None) -> Iterator[str]:
    limit_s = spec.time_limit_s
    if limit_s is None or quote is None or quote.wall_s is None:
        return
    expected_s = quote.wall_s.mean + (quote.setup_s.mean if quote.setup_s is not None else 0.0)
    if expected_s > limit_s:
        yield f"It is expected to take {expected_s:.0f} s, and time_limit_s ends it after {limit_s:.0f} s."


def _epochs(spec: Spec, alike: Sequence[PastJob]) -> Iterator[str]:
    if spec.early_stopping is not None or spec.epochs < _MANY_EPOCHS:
        return
    long_ones = [job.summary for job in alike if job.summary is not None and job.summary.epochs_run >= _MANY_EPOCHS]
    best = median([one.best_epoch for one in long_ones]) if long_ones else None
    if best is None:
        yield f"Early stopping is off: all {spec.epochs} epochs will run, also those that make the model worse."
    elif best < _LATE * spec.epochs:
        number = len(long_ones)
        yield (
            f"Early stopping is off: all {spec.epochs} epochs will run, and past jobs were at their best "
            f"after {best:g} (the median of {number})."
        )


def _memory(plan: Plan, alike: Sequence[PastJob]) -> Iterator[str]:
    for job in alike:
        found = job.probe
        if found is None or found.ended_by != "memory" or found.largest_batch is None:
            continue
        too_large = [point.per_gpu_batch for point in found.points if not point.fits]
        if too_large and plan.per_gpu_batch >= min(too_large):
            yield (
                f"A batch probe ({job.id}) found that {min(too_large)} samples a GPU do not fit into its memory, "
                f"and {found.largest_batch} do: {plan.per_gpu_batch} will not."
            )
        return  # the newest such probe says it


def _steps(spec: Spec, plan: Plan) -> Iterator[str]:
    steps = plan.steps_per_epoch
    if steps is not None and spec.steps_per_epoch is None and steps < FEWEST_STEPS:
        yield (
            f"A global batch of {plan.global_batch} is so large that an epoch of {plan.train_samples} samples has "
            f"{steps} step{'' if steps == 1 else 's'}."
        )


def _boundary(spec: Spec, hosts: int) -> Iterator[str]:
    if hosts > 1 and spec.placement == "pack":
        yield (
            f"{spec.gpus} GPUs are more than one host has: the job goes over {hosts} hosts, and its gradients over "
            "the network between them."
        )
