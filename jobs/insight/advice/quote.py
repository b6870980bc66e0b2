"""Quotes: the expected time and cost of a job, from comparable past jobs. Called by the api for a `dry_run`.

`preview` reads rows; `quoted` is pure. `jobs.insight.advice.warnings` adds warnings.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from statistics import median

from sqlalchemy.orm import Session

from jobs.insight.advice.past import MIXED, PastJob, comparable, past_jobs, trained_before
from jobs.insight.advice.throughput import Reading, Throughput, batch_on, range_of
from jobs.insight.advice.warnings import StorageLimits, warnings_about
from jobs.lifecycle.attempt_devices import CPU
from jobs.lifecycle.run_durations import key_of, work_key_of
from jobs.model.plan import Plan, UnworkablePlan, resolve_plan
from jobs.model.spec import Spec
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.hosts import request_of, whole_cluster
from jobs.views.advice import Quote, Range


@dataclass(frozen=True)
class Outlook:
    """The quote for a job before it is submitted, and warnings."""

    quote: Quote | None
    warnings: list[str]


@dataclass(frozen=True)
class PlannedJob:
    """A job before its submission: its plan, with the sizes of its data if known, and how many hosts it would need."""

    spec: Spec
    plan: Plan
    hosts: dict[int, int]  # by GPU count; only counts that fit


def preview(
    session: Session,
    spec: Spec,
    plan: Plan,
    *,
    storage: StorageLimits = StorageLimits(),  # noqa: B008 - it is frozen
) -> Outlook:
    """The quote for a job, and warnings about it."""
    past = past_jobs(session, work_key_of(spec))
    cluster = whole_cluster(session)
    device = _device(cluster, spec, past)
    alike = comparable(past, spec, device)
    planned = planned_job(spec, _with_sizes(spec, plan, past), cluster)
    quote = quoted(planned, alike)
    hosts = planned.hosts.get(spec.gpus, 1)
    return Outlook(quote, warnings_about(spec, planned.plan, quote, alike, hosts=hosts, storage=storage))


def planned_job(spec: Spec, plan: Plan, cluster: Cluster) -> PlannedJob:
    """A planned job with the number of hosts that it would need if all were empty."""
    hosts = {}
    for gpus in {1, spec.gpus // 2, spec.gpus} - {0}:
        fit = cluster.fit(request_of(spec, gpus), cluster.capacity)
        if fit is not None:
            hosts[gpus] = len({slots.host for slots, _ in fit})
    return PlannedJob(spec, plan, hosts)


def quoted(planned: PlannedJob, alike: Sequence[PastJob]) -> Quote | None:
    """The expected time and cost of a job, from comparable past jobs; None if there are none."""
    spec = planned.spec
    if spec.probe is not None:
        return None
    if spec.is_script:
        return _quote_of_script(planned, alike)
    trained = [job for job in alike if job.spec.probe is None and job.summary is not None]
    throughput = Throughput(alike, hosts=planned.hosts)
    # Only the throughput of long jobs can be compared.
    long_ones = Throughput((job for job in alike if job.is_long), hosts=planned.hosts)
    same = _on_expected_hosts([job for job in trained if job.run_key == key_of(spec)], planned)
    if same:
        return _quote_of_the_same(planned, same, long_ones)
    reading = throughput.at(spec.gpus, planned.plan.per_gpu_batch)
    if reading is None:
        return None
    return _quote_by_throughput(planned, trained, reading, long_ones)


def _on_expected_hosts(jobs: list[PastJob], planned: PlannedJob) -> list[PastJob]:
    return [job for job in jobs if job.hosts == planned.hosts.get(planned.spec.gpus, job.hosts)] or jobs


def _quote_of_the_same(planned: PlannedJob, same: Sequence[PastJob], long_ones: Throughput) -> Quote:
    summaries = [job.summary for job in same if job.summary is not None]
    wall_s = range_of([one.wall_s for one in summaries])
    setup_s = range_of([one.setup_s for one in summaries])
    speeds = [one.train_samples_per_s for one in summaries if one.train_samples_per_s > 0]
    epochs = range_of([job.own_epochs for job in same])
    return Quote(
        basis="same_spec",
        jobs=[job.id for job in same],
        epochs=f"{_span(epochs)} epochs, as {_jobs(len(same))} of the same spec ran",
        wall_s=wall_s,
        setup_s=setup_s,
        samples_per_s=range_of(speeds) if speeds else None,
        gpu_hours=_gpu_hours(planned.spec.gpus, wall_s, setup_s),
        **scaling(planned.spec, long_ones),
    )


def _quote_of_script(planned: PlannedJob, alike: Sequence[PastJob]) -> Quote | None:
    """A quote from runs of the same script with the same params. Nobody knows what others do with a sample."""
    same = [job for job in alike if job.run_key == key_of(planned.spec) and job.script is not None]
    same = _on_expected_hosts(same, planned)
    if not same:
        return None
    results = [job.script for job in same if job.script is not None]
    wall_s, setup_s = range_of([one.wall_s for one in results]), range_of([one.setup_s for one in results])
    speeds = [one.train_samples_per_s for one in results if one.train_samples_per_s]
    return Quote(
        basis="same_spec",
        jobs=[job.id for job in same],
        epochs=None,
        wall_s=wall_s,
        setup_s=setup_s,
        samples_per_s=range_of(speeds) if speeds else None,
        gpu_hours=_gpu_hours(planned.spec.gpus, wall_s, setup_s),
        speedup=None,
        efficiency=None,
        doubling_gain=None,
    )


def _quote_by_throughput(
    planned: PlannedJob, trained: Sequence[PastJob], reading: Reading, long_ones: Throughput
) -> Quote | None:
    spec, plan = planned.spec, planned.plan
    epochs = expected_epochs(spec, trained)
    wall_s = None if epochs is None else _wall_s(plan, reading.samples_per_s, epochs, trained)
    alike = [job for job in trained if job.id in reading.jobs] or [job for job in trained if job.plan.gpus == spec.gpus]
    setups = [job.summary.setup_s for job in alike or trained if job.summary is not None]
    setup_s = range_of(setups) if setups else None
    return Quote(
        basis="same_batch_and_gpus" if reading.measured else "scaled",
        jobs=list(reading.jobs),
        epochs=None if epochs is None else epochs.text,
        wall_s=wall_s,
        setup_s=setup_s,
        samples_per_s=reading.samples_per_s,
        gpu_hours=None if wall_s is None else _gpu_hours(spec.gpus, wall_s, setup_s),
        **scaling(spec, long_ones),
    )


@dataclass(frozen=True)
class Epochs:
    """How many epochs a job is expected to run, and why."""

    number: Range
    text: str


def expected_epochs(spec: Spec, trained: Sequence[PastJob]) -> Epochs | None:
    """How many epochs the job will run: all of them, or as many as past jobs with the same early stopping.

    Without those that were trained before, if it continues a job. None if it may stop early and no past job shows when:
    a job that ran to its limit says nothing about a higher limit.
    """
    before = trained_before(spec)
    if spec.early_stopping is None:
        left = max(spec.epochs - before, 1)
        which = f"all {left} epochs" if before == 0 else f"the {left} epochs that are left of {spec.epochs}"
        return Epochs(range_of([left]), f"{which}, as early stopping is off")
    runs = [
        max(min(job.summary.epochs_run, spec.epochs) - before, 1)
        for job in trained
        if job.summary is not None
        and job.spec.early_stopping == spec.early_stopping
        and (job.summary.stopped_early or job.spec.epochs >= spec.epochs)
    ]
    if not runs:
        return None
    middle = float(median(runs))
    number = Range(mean=middle, low=min(runs), high=max(runs))
    more = "" if before == 0 else " more"
    return Epochs(number, f"{middle:g}{more} epochs, the median of {_jobs(len(runs))} with the same early stopping")


def _wall_s(plan: Plan, speed: Range, epochs: Epochs, trained: Sequence[PastJob]) -> Range | None:
    """The time of the steps and of everything beside them, such as validation, at the expected throughput."""
    overheads = [job.overhead for job in trained if job.overhead is not None]
    if plan.steps_per_epoch is None or plan.validation_samples is None or not overheads:
        return None
    samples = plan.steps_per_epoch * plan.global_batch + median(overheads) * plan.validation_samples
    number = epochs.number
    return Range(
        mean=number.mean * samples / speed.mean,
        low=number.low * samples / speed.high,
        high=number.high * samples / speed.low,
    )


def scaling(spec: Spec, throughput: Throughput) -> dict[str, float | None]:
    """Speed-up, efficiency and the gain of the last doubling, from measurements with exactly these numbers of GPUs.

    Compared with the same spec on fewer GPUs: with `batch_per: gpu` each GPU has the same batch there (weak scaling),
    with `batch_per: global` the global batch is the same (strong scaling).
    """
    reading = _at(spec, spec.gpus, throughput)
    on_one_gpu = _at(spec, 1, throughput)
    on_half = _at(spec, spec.gpus // 2, throughput) if spec.gpus % 2 == 0 else None
    speedup = None if reading is None or on_one_gpu is None else reading.mean / on_one_gpu.mean
    return {
        "speedup": speedup,
        "efficiency": None if speedup is None else speedup / spec.gpus,
        "doubling_gain": None if reading is None or on_half is None else reading.mean / on_half.mean,
    }


def _at(spec: Spec, gpus: int, throughput: Throughput) -> Reading | None:
    batch = batch_on(spec, gpus)
    return None if batch is None else throughput.at(gpus, batch, between_gpus=False)


def _gpu_hours(gpus: int, wall_s: Range, setup_s: Range | None) -> Range:
    setup = setup_s or range_of([0.0])
    return Range(
        mean=gpus * (wall_s.mean + setup.mean) / 3600,
        low=gpus * (wall_s.low + setup.low) / 3600,
        high=gpus * (wall_s.high + setup.high) / 3600,
    )


def _device(cluster: Cluster, spec: Spec, past: Sequence[PastJob]) -> str | None:
    """The device that the job would run on: of several GPU models the one of the newest past job."""
    request = request_of(spec)
    fits = cluster.fit(request, cluster.capacity) is not None
    there = {slots.model or CPU for slots in cluster.classes(request)} if fits else set()
    newest = (job.device for job in past if job.device is not None and (not cluster.hosts or _is_of(job.device, there)))
    return next(newest, None)


def _is_of(device: str, models: Collection[str]) -> bool:
    """Whether a device, perhaps several models together, is of these models only."""
    return set(device.split(MIXED)) <= set(models)


def _with_sizes(spec: Spec, plan: Plan, past: Sequence[PastJob]) -> Plan:
    """The plan with the sizes of its data. Unless the dataset is registered, only past jobs know them."""
    if plan.train_samples is not None:
        return plan
    sizes = next((job.sizes for job in past if job.sizes and _same_parts(job.spec, spec)), None)
    try:
        return plan if sizes is None else resolve_plan(spec, sizes)
    except UnworkablePlan:  # the data may have changed: a quote refuses nothing
        return plan


def _same_parts(one: Spec, other: Spec) -> bool:
    if one.dataset is None or other.dataset is None:
        return False
    return (one.dataset.validation, one.dataset.balance) == (other.dataset.validation, other.dataset.balance)


def _jobs(number: int) -> str:
    return "one past job" if number == 1 else f"{number} past jobs"


def _span(values: Range) -> str:
    return f"{values.low:g}" if values.low == values.high else f"{values.low:g} to {values.high:g}"
