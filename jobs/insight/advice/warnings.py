"""Warnings about a job before it is submitted, a sentence each. Pure.

Called by `jobs.insight.advice.quote` with the job's quote. Each warning follows from figures; without them there is no
warning.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from jobs.insight.advice.past import PastJob
from jobs.model.plan import Plan, values_of_optimizer
from jobs.model.spec import Spec
from jobs.model.tasks import epoch_metrics
from jobs.views.advice import Quote

HALF_OF_A_DOUBLING = 1.5  # the ideal is 2: at 1.5 the second half of the GPUs brings half of what it could
FEWEST_STEPS = 10  # fewer updates hardly train, and can leave out a tenth of the samples
_MANY_EPOCHS = 20  # with this many epochs a rule that ends them is worth it
_BYTES_A_VALUE = 4
_MODELS_IN_ARTIFACTS = 2  # the whole network, and its weights alone
_LATE = 0.5  # past jobs that were at their best before this share of the epochs wasted the rest


@dataclass(frozen=True)
class StorageLimits:
    """What the operator lets a job keep on a host, and a host's cache take, in 10^9 bytes. None: no limit."""

    job_gb: float | None = None
    cache_gb: float | None = None


def warnings_about(
    spec: Spec,
    plan: Plan,
    quote: Quote | None,
    alike: Sequence[PastJob],
    *,
    hosts: int = 1,
    storage: StorageLimits = StorageLimits(),
) -> list[str]:
    """All warnings. `hosts` is the least number of hosts that the job would run on."""
    if spec.probe is not None:
        return []
    if spec.is_script:  # nobody knows what it does with epochs, batches and memory
        return [*_time(spec, quote), *_boundary(spec, hosts)]
    return [
        *_doubling(spec, quote),
        *_time(spec, quote),
        *_epochs(spec, alike),
        *_schedule(spec),
        *_memory(plan, alike),
        *_steps(spec, plan),
        *_boundary(spec, hosts),
        *_storage(spec, alike, storage),
    ]


def _doubling(spec: Spec, quote: Quote | None) -> Iterator[str]:
    gain = None if quote is None else quote.doubling_gain
    if gain is not None and gain < HALF_OF_A_DOUBLING:
        yield (
            f"In past jobs {spec.gpus} GPUs reached {gain:.2g}x the throughput of {spec.gpus // 2} (ideal: 2x): "
            "the second half of the GPUs brought less than half of what it could."
        )


def _time(spec: Spec, quote: Quote | None) -> Iterator[str]:
    limit_s = spec.time_limit_s
    if limit_s is None or quote is None or quote.wall_s is None:
        return
    expected_s = quote.wall_s.mean + (quote.setup_s.mean if quote.setup_s is not None else 0.0)
    if expected_s > limit_s:
        yield f"The job is expected to take {expected_s:.0f} s, but time_limit_s ends it after {limit_s:.0f} s."


def _epochs(spec: Spec, alike: Sequence[PastJob]) -> Iterator[str]:
    if spec.early_stopping is not None or spec.epochs < _MANY_EPOCHS:
        return
    long_ones = [
        job.summary
        for job in alike
        if job.summary is not None and job.summary.epochs_run >= _MANY_EPOCHS and _judging(job.spec) == _judging(spec)
    ]
    best = median([one.best_epoch for one in long_ones]) if long_ones else None
    if best is None:
        yield f"Early stopping is off: all {spec.epochs} epochs will run, even if they make the model worse."
    elif best < _LATE * spec.epochs:
        number = len(long_ones)
        yield (
            f"Early stopping is off: all {spec.epochs} epochs will run, but past jobs were at their best after "
            f"{best:g} (median of {number})."
        )


def _schedule(spec: Spec) -> Iterator[str]:
    """A schedule that never lowers the rate."""
    schedule, stopping = spec.schedule, spec.early_stopping
    if schedule.epochs is not None and schedule.epochs[0] >= spec.epochs:
        yield f"The rate never falls: the schedule's first step is after epoch {schedule.epochs[0]} of {spec.epochs}."
    elif schedule.epochs is not None and stopping is not None:
        steps = [epoch for epoch in schedule.epochs if epoch < spec.epochs]
        waits = max(step - before for before, step in pairwise([0, *steps]))
        if stopping.patience < waits:
            yield (
                f"Early stopping may end the job before the rate falls: it waits {stopping.patience} epoch"
                f"{'' if stopping.patience == 1 else 's'} for an improvement, but the schedule has up to {waits} "
                "epochs with the same rate before a step. Set a longer early_stopping.patience."
            )
    if schedule.patience is None or stopping is None or stopping.patience > schedule.patience:
        return
    if schedule.monitor in (None, stopping.monitor):
        yield (
            f"The rate never falls: early stopping ends the job after {stopping.patience} epochs without an "
            f"improvement, and a plateau has {schedule.patience}."
        )


def _judging(spec: Spec) -> tuple[str | None, bool]:
    """The metric that decides which epoch is the best, and whether a lower value of it is better."""
    metric = spec.best_by(epoch_metrics(spec.task))
    return metric, metric is not None and spec.is_lower_better(metric)


def _memory(plan: Plan, alike: Sequence[PastJob]) -> Iterator[str]:
    for job in alike:
        probe = job.probe
        if probe is None or probe.ended_by != "memory" or probe.largest_batch is None:
            continue
        too_large = [point.per_gpu_batch for point in probe.points if not point.fits]
        if too_large and plan.per_gpu_batch >= min(too_large):
            yield (
                f"{plan.per_gpu_batch} samples per GPU will not fit into its memory: batch probe {job.id} found that "
                f"{probe.largest_batch} fit and {min(too_large)} do not."
            )
        return  # only the newest such probe counts


def _steps(spec: Spec, plan: Plan) -> Iterator[str]:
    steps = plan.steps_per_epoch
    if steps is not None and spec.steps_per_epoch is None and steps < FEWEST_STEPS:
        yield (
            f"With a global batch of {plan.global_batch} an epoch of {plan.train_samples} samples has only {steps} "
            f"step{'' if steps == 1 else 's'}."
        )


def _boundary(spec: Spec, hosts: int) -> Iterator[str]:
    if hosts > 1 and spec.placement == "pack":
        yield (
            f"No host has {spec.gpus} GPUs: the job will run on {hosts} hosts, and its gradients will cross the "
            "network between them."
        )


def _storage(spec: Spec, alike: Sequence[PastJob], storage: StorageLimits) -> Iterator[str]:
    dataset = spec.dataset
    if dataset is None:
        return
    if dataset.cache != "none" and storage.cache_gb is not None and dataset.cache_limit_gb > storage.cache_gb:
        yield (
            f"A host's cache has at most {storage.cache_gb:g} GB here: dataset.cache_limit_gb of "
            f"{dataset.cache_limit_gb:g} is cut to that."
        )
    summary = next((job.summary for job in alike if job.summary is not None), None)
    if summary is None or storage.job_gb is None:
        return
    kept_models = 1 if spec.early_stopping is None else 2  # the best weights are in a checkpoint too
    optimizer_bytes = values_of_optimizer(spec.optimizer) * _BYTES_A_VALUE * summary.trainable_parameters
    checkpoint_gb = (kept_models * summary.model_bytes + optimizer_bytes) / 1e9
    artifact_gb = _MODELS_IN_ARTIFACTS * summary.model_bytes / 1e9
    limit = f"more than the {storage.job_gb:g} GB that a job may keep on a host"
    if checkpoint_gb + artifact_gb > storage.job_gb:
        needed = f"A checkpoint of about {checkpoint_gb:.2g} GB and artifacts of about {artifact_gb:.2g} GB"
        yield f"{needed} are {limit}: the job will fail before its first step."
    elif spec.checkpoint.keep * checkpoint_gb + artifact_gb > storage.job_gb:
        needed = f"{spec.checkpoint.keep} checkpoints of about {checkpoint_gb:.2g} GB, with the artifacts,"
        yield f"{needed} are {limit}: fewer will be kept."
