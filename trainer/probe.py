"""A batch probe from top to bottom: connect, data, build, then one batch after the other. Called by `trainer.__main__`.

It changes no weight and leaves no file. A wish to stop ends it at once, as in the set-up: there is nothing to save, and
a restarted probe begins from the start.
"""

import time
from collections.abc import Iterator

from jobs.model.launch import Launch
from jobs.model.plan import Plan, own_batch_of
from jobs.model.records import Planned, ProbeEnded, ProbeMeasured, ProbePoint
from jobs.model.spec import ProbeSpec, Spec
from trainer import distributed
from trainer.distributed import fail_together
from trainer.errors import Outcome
from trainer.plan import settle_plan
from trainer.probing import memory
from trainer.probing.measuring import Measuring, dynamic
from trainer.probing.proposal import EndedBy, findings_of
from trainer.recorder import NullRecorder, Recorder, Records
from trainer.recording_callbacks import data_opened
from trainer.session import Opened, Phases, open_all
from trainer.stopping import Stage, StopWatch
from trainer.trainable import build_replicas, build_train_step, mirrored_of


def run(launch: Launch, started_at: float, recorder: Recorder, watch: StopWatch) -> Outcome:
    """Run this rank of the probe. Raises `TrainerError`, or whatever goes wrong in TensorFlow and Horovod.

    A step of the probe is one batch, also for a job that accumulates.
    """
    spec = launch.spec
    one_batch = {"accumulate": 1, "batch_size": own_batch_of(spec), "batch_per": "gpu"}
    launch = launch.model_copy(update={"spec": spec.model_copy(update=one_batch)})
    phases = Phases(recorder, started_at)
    opened = open_all(launch, phases)
    job_recorder: Records = recorder if opened.ranks.rank == 0 else NullRecorder()
    measuring = fail_together(lambda: build(launch, opened, job_recorder))
    phases.end("build")
    job_recorder.write(data_opened(opened.dataset.facts, opened.dataset.facts.damaged))
    job_recorder.write(Planned(at=time.time(), plan=opened.plan))

    points, ended_by = search(launch.spec, opened, measuring)
    train_samples = opened.plan.train_samples or 0
    findings = findings_of(points, ended_by, spec, train_samples=train_samples)
    watch.stage = Stage.FINISHING
    print(findings.why, flush=True)
    job_recorder.write(ProbeEnded(at=time.time(), findings=findings))
    recorder.settle(within_s=launch.space_wait_s)
    distributed.disconnect()
    return Outcome.COMPLETED


def build(launch: Launch, opened: Opened, recorder: Records) -> Measuring:
    """The network with random weights, and its steps. The rate is 0: a step's time does not depend on the weights.

    So no loss diverges, and the ranks stay equal although each of them also makes steps alone.
    """
    facts, ranks = opened.dataset.facts, opened.ranks
    mirrored = mirrored_of(launch)
    replicas = build_replicas(launch, opened.plan, facts, mirrored)
    replicas[0].optimizer.learning_rate = 0.0
    train_step = build_train_step(launch, facts, opened.plan, replicas, mirrored)
    alone = train_step
    if ranks.size > 1:
        without = build_train_step(launch, facts, opened.plan, replicas, None, alone=True)
        alone = dynamic(without, facts.shape, facts.dtype)
    return Measuring(launch, _probe_of(launch.spec), ranks, opened.dataset, train_step, alone, recorder, mirrored)


def search(spec: Spec, opened: Opened, measuring: Measuring) -> tuple[list[ProbePoint], EndedBy]:
    """Measure one batch after the other. Returns the points and why it ended, the same on every rank."""
    points: list[ProbePoint] = []
    for plan in plans(spec, opened):
        if plan is None:
            return points, "data"
        point = measuring.measure(plan) if _has_room(points, measuring) else _too_large(plan)
        points.append(point)
        print(_describe(point), flush=True)
        measuring.recorder.write(ProbeMeasured(at=time.time(), point=point))
        if point.step_time_s is None:
            return points, "memory"
        if point.step_time_s > measuring.probe.seconds:
            return points, "time"
    return points, "largest"


def plans(spec: Spec, opened: Opened) -> Iterator[Plan | None]:
    """The plan for each batch to try; None, at the end, for one that is larger than the data."""
    sizes, gpus = opened.dataset.facts.sizes, opened.plan.gpus
    for batch in _probe_of(spec).batches(own_batch_of(spec)):
        if batch * gpus > (opened.plan.train_samples or 0):
            yield None
            return
        with_batch = spec.model_copy(update={"batch_size": batch, "batch_per": "gpu"})
        yield settle_plan(with_batch, sizes, gpus=gpus)


def _has_room(points: list[ProbePoint], measuring: Measuring) -> bool:
    """Whether the hosts of all ranks have the memory that the next batch is expected to take."""
    peaks = [point.memory_bytes or 0 for point in points]
    lacks = memory.lacks_room(peaks, measuring.launch.device, local_ranks=measuring.ranks.local_size)
    return not any(distributed.gather(lacks))


def _too_large(plan: Plan) -> ProbePoint:
    return ProbePoint(per_gpu_batch=plan.per_gpu_batch, global_batch=plan.global_batch, fits=False)


def _describe(point: ProbePoint) -> str:
    who = f"batch {point.per_gpu_batch} per GPU, {point.global_batch} in all"
    if point.step_time_s is None or point.samples_per_s is None:
        return f"{who}: does not fit the memory"
    return f"{who}: {point.samples_per_s:,.0f} samples/s, {1000 * point.step_time_s:.2f} ms a step"


def _probe_of(spec: Spec) -> ProbeSpec:
    assert spec.probe is not None  # or the session would have been called
    return spec.probe
