"""A rank's run from top to bottom: connect, data, build, restore, train, finish. Called by `trainer.__main__`.

Importing this module imports TensorFlow, Keras and Horovod.
"""

import os
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jobs.model.launch import Launch
from jobs.model.plan import Plan
from jobs.model.records import MetricSummary, PhaseEnded, Planned, Summarized, Summary
from jobs.model.tasks import epoch_metrics
from jobs.runtime.files import make_private
from trainer import distributed
from trainer.artifacts import save_classes, save_network, save_vocabulary
from trainer.callbacks import Callback, Checkpointing, EarlyStopping, LearningRate, Weights, weights_of
from trainer.checkpoint import CheckpointStore
from trainer.data.interfaces import Host
from trainer.data.opening import Dataset, open_source
from trainer.distributed import Ranks, fail_together
from trainer.errors import Diverged, NoSpace, Outcome
from trainer.event_files import EpochEvents, StepEvents, add_test
from trainer.log_lines import EpochLines, beginning, result
from trainer.loop import Loop
from trainer.measures import measures_of, named
from trainer.pipeline import PIPELINES
from trainer.plan import settle_plan
from trainer.recipe import check_recipe
from trainer.recorder import NullRecorder, Recorder, Records
from trainer.recording_callbacks import DamageWatch, EpochRecording, RankRecording, data_opened
from trainer.space import wait_for_space
from trainer.state import State
from trainer.stepping import Stepper
from trainer.stopping import Stage, StopWatch
from trainer.storage import require_storage
from trainer.trainable import TrainableModel, build, keep_best_weights, restore, save, storage_of


class Phases:
    """Records how long each part of the set-up took."""

    def __init__(self, recorder: Records, started_at: float) -> None:
        self._recorder = recorder
        self._began_at = self._started_at = started_at

    def end(self, name: str) -> None:
        """Record the phase that began when the last one ended."""
        now = time.time()
        self._recorder.write(PhaseEnded(at=now, name=name, duration_s=now - self._began_at))
        self._began_at = now

    def total_s(self) -> float:
        """From the start of the process to the end of the last part."""
        return self._began_at - self._started_at


@dataclass(frozen=True)
class Opened:
    """The opened data, the plan and the ranks, with which a run or a probe starts."""

    ranks: Ranks
    dataset: Dataset
    plan: Plan


@dataclass(frozen=True)
class Session:
    """Everything that the set-up made. `best_weights` come from an earlier attempt; only rank 0 has them."""

    launch: Launch
    ranks: Ranks
    dataset: Dataset
    plan: Plan
    trainable: TrainableModel
    store: CheckpointStore
    state: State
    best_weights: Weights | None
    phases: Phases
    recorder: Recorder  # of this rank
    job_recorder: Records  # of the whole job: writes on rank 0

    @property
    def events_dir(self) -> Path:
        """Where TensorBoard's event files go."""
        return Path(self.launch.artifacts_dir, "tensorboard")


def run(launch: Launch, started_at: float, recorder: Recorder, watch: StopWatch) -> Outcome:
    """Run this rank of the job. Raises `TrainerError`, or whatever goes wrong in TensorFlow and Horovod."""
    session = set_up(launch, started_at, recorder)
    loop, early_stopping = make_loop(session, watch)
    watch.stage = Stage.TRAINING
    outcome = loop.train()
    if outcome is not Outcome.STOP_REQUESTED:
        watch.stage = Stage.FINISHING
        finish(session, loop, early_stopping, outcome)
        recorder.settle(within_s=launch.space_wait_s)
    distributed.disconnect()
    return outcome


def set_up(launch: Launch, started_at: float, recorder: Recorder) -> Session:
    """Do everything before the first step."""
    spec = launch.spec
    phases = Phases(recorder, started_at)
    opened = open_all(launch, phases)
    ranks, dataset, plan = opened.ranks, opened.dataset, opened.plan

    trainable = fail_together(lambda: build(launch, plan, dataset.facts))
    sizes = storage_of(trainable, keeps_best=spec.early_stopping is not None)
    require_storage(**sizes, limit_bytes=launch.storage_limit_bytes)
    phases.end("build")

    store = CheckpointStore(
        Path(launch.checkpoints_dir), attempt=launch.attempt, keep=spec.checkpoint.keep,
        limit_bytes=launch.storage_limit_bytes, artifact_bytes=sizes["artifact_bytes"],
    )  # fmt: skip
    state, best_weights = restore(store, trainable, launch, plan, ranks)
    progress = state.progress
    if progress.step or spec.own_model.weights != "none":
        phases.end("restore")

    job_recorder: Records = recorder if ranks.rank == 0 else NullRecorder()
    data = data_opened(dataset.facts, dataset.facts.damaged)
    job_recorder.write(data)
    job_recorder.write(Planned(at=time.time(), plan=plan, start_epoch=progress.epoch - 1, start_step=progress.step))
    if ranks.rank == 0:
        for warning in data.warnings:
            print(f"warning: {warning}", flush=True)
        print(beginning(launch, plan, parameters=trainable.model.count_params()), flush=True)
    return Session(launch, ranks, dataset, plan, trainable, store, state, best_weights, phases, recorder, job_recorder)


def open_all(launch: Launch, phases: Phases) -> Opened:
    """Connect to the other ranks, open the data, and agree on the plan. The network is built after that."""
    phases.end("import")

    ranks = distributed.connect(launch)
    fail_together(lambda: distributed.claim_devices(launch, ranks.local_rank))
    phases.end("connect")

    dataset = open_dataset(launch, ranks)
    plan = fail_together(lambda: settle_plan(launch.spec, dataset.facts.sizes, gpus=launch.gpus))
    distributed.agree("the plan", plan.model_dump(mode="json"))
    phases.end("data")
    return Opened(ranks, dataset, plan)


def open_dataset(launch: Launch, ranks: Ranks) -> Dataset:
    """Find the data, look at all of it together, and open this rank's view. Raises `BadData` on every rank."""
    spec = launch.spec
    host = Host(
        data_roots=launch.data_roots,
        cache_dir=Path(launch.cache_dir),
        scratch_dir=Path(tempfile.gettempdir()),
        threads=launch.threads_per_rank or max(1, (os.cpu_count() or 1) // ranks.local_size),
    )
    source = fail_together(lambda: open_source(spec.own_dataset, seed=spec.seed, host=host, task=spec.task))
    surveys = distributed.gather(fail_together(lambda: source.survey(rank=ranks.rank, ranks=ranks.size)))
    dataset = fail_together(lambda: source.to_dataset(surveys, launch.expected))
    fail_together(lambda: check_recipe(spec, dataset.facts))
    fail_together(lambda: dataset.prepare(local_rank=ranks.local_rank, local_ranks=ranks.local_size))
    return dataset


def make_loop(session: Session, watch: StopWatch) -> tuple[Loop, EarlyStopping]:
    """The loop with its callbacks, in the order in which they are called."""
    spec, plan, trainable, state = session.launch.spec, session.plan, session.trainable, session.state
    pipeline = PIPELINES[session.launch.device]

    def write_checkpoint() -> Path | None:
        if session.ranks.rank != 0:
            return None
        session.recorder.flush()
        if session.recorder.is_behind:  # a restart from this checkpoint would lose the records before it
            raise NoSpace("the records before it cannot be written")
        return save(session.store, trainable, state, early_stopping.best_weights)

    def on_first_step() -> None:
        distributed.agree_on_weights(trainable.copies_of_weights, "after the first step")
        session.phases.end("first_step")

    facts = session.dataset.facts
    names = epoch_metrics(facts.task, len(facts.classes))
    early_stopping = EarlyStopping(
        spec, state.stopping, session.best_weights, lambda: weights_of(trainable.model.weights), names=names
    )
    checkpointing = Checkpointing(
        write_checkpoint, session.job_recorder, state.progress, every_epochs=spec.checkpoint.every_epochs
    )
    learning_rate = LearningRate(spec, plan, state.plateau, trainable.optimizer, names=names)
    callbacks: list[Callback] = [
        learning_rate,
        RankRecording(session.recorder, global_batch=plan.global_batch),
        DamageWatch(session.dataset, session.job_recorder, name=spec.own_dataset.source),
        early_stopping,
        EpochRecording(session.job_recorder, lambda: trainable.learning_rate),
    ]
    if session.ranks.rank == 0:
        callbacks.append(EpochLines(plan.epochs, state.stopping))
        callbacks += event_files(session, learning_rate.of)
    # Last: what a checkpoint contains has been recorded before it is saved.
    callbacks.append(checkpointing)
    loop = Loop(
        plan=plan,
        spec=spec,
        ranks=session.ranks,
        dataset=session.dataset,
        stepper=Stepper(trainable.train_step, lag=pipeline.lag),
        evaluation_step=trainable.evaluation_step,
        measures=measures_of(facts),
        state=state,
        callbacks=callbacks,
        checkpointing=checkpointing,
        watch=watch,
        on_first_step=on_first_step,
        flush=session.recorder.flush,
        waited=session.recorder.waited,
        place=pipeline.place(trainable.mirrored),
    )
    return loop, early_stopping


def event_files(session: Session, rate_of: Callable[[int], float]) -> list[Callback]:
    """The callbacks that write TensorBoard's files. They continue at the position of the run."""
    folder, attempt, progress = session.events_dir, session.launch.attempt, session.state.progress
    trainable, plan = session.trainable, session.plan
    return [
        EpochEvents(folder, lambda: trainable.learning_rate, attempt=attempt, first_epoch=progress.epoch),
        StepEvents(folder, rate_of, plan=plan, attempt=attempt, first_step=progress.step + 1),
    ]


def finish(session: Session, loop: Loop, early_stopping: EarlyStopping, outcome: Outcome) -> None:
    """Choose the weights to keep, evaluate them on the test part, save them, and write the summary.

    A pruned run is not tested: its search has better ones, and the test may take longer than the epochs that it saves.
    """
    is_first = session.ranks.rank == 0
    distributed.agree_on_weights(session.trainable.copies_of_weights, "at the end")
    if early_stopping.restores:
        keep_best_weights(session.trainable, early_stopping.best_weights if is_first else None)
    elif outcome is Outcome.PRUNED:  # within an epoch: these weights were not validated yet
        validated, _ = loop.evaluate(session.dataset.validation, session.plan.validation_samples)
        early_stopping.state.last_metrics |= named("val_", validated)
    require_finite(session.trainable.model.weights, step=loop.progress.step)
    part = session.dataset.test if outcome is not Outcome.PRUNED else None
    test = None if part is None else loop.evaluate(part)[0]
    fail_together(lambda: leave_artifacts_when_there_is_space(session, early_stopping, test) if is_first else None)
    stopped_early = outcome is not Outcome.COMPLETED
    summary = summed_up(session, early_stopping, test, stopped_early=stopped_early)
    session.job_recorder.write(Summarized(at=time.time(), summary=summary))
    if is_first:
        metrics = early_stopping.kept_metrics | named("test_", test or {})
        print(result(outcome, summary, kept_epoch=early_stopping.kept_epoch, metrics=metrics), flush=True)


def require_finite(weights: Iterable[Any], *, step: int) -> None:
    """Raises `Diverged` if weights are NaN or infinite: no loss has seen what the last update made of them."""
    if not all(np.isfinite(variable.numpy()).all() for variable in weights):
        raise Diverged(f"weights are NaN or infinite after the last update, in step {step}: try a lower learning rate")


def leave_artifacts_when_there_is_space(
    session: Session, early_stopping: EarlyStopping, test: dict[str, float] | None
) -> None:
    """Write the artifacts. Wait for space if there is none. Raises `NoSpace`."""
    launch = session.launch
    wait_for_space(
        lambda: leave_artifacts(session, early_stopping, test),
        session.recorder.waited,
        within_s=launch.space_wait_s,
        folder=Path(launch.artifacts_dir),
    )


def leave_artifacts(session: Session, early_stopping: EarlyStopping, test: dict[str, float] | None) -> None:
    """Write the artifacts of the job; `test` has the metrics of the held-out part."""
    folder = Path(session.launch.artifacts_dir)
    make_private(folder)
    facts = session.dataset.facts
    save_network(session.trainable.model, folder, facts.vocabulary)
    if facts.classes:
        save_classes(facts.classes, folder)
    if facts.are_texts:
        save_vocabulary(facts.vocabulary, folder)
    if test is not None:
        add_test(session.events_dir, early_stopping.kept_epoch, test, attempt=session.launch.attempt)


def summed_up(
    session: Session, early_stopping: EarlyStopping, test: dict[str, float] | None, *, stopped_early: bool
) -> Summary:
    """The summary of the job."""
    model, progress, stopping = session.trainable.model, session.state.progress, early_stopping.state
    kept, tested = early_stopping.kept_metrics, named("test_", test or {})
    return Summary(
        best_epoch=stopping.best_epoch,
        epochs_run=progress.last_epoch,
        val_accuracy=kept.get("val_accuracy"),
        val_loss=kept["val_loss"],
        test_accuracy=tested.get("test_accuracy"),
        test_loss=tested.get("test_loss"),
        train_samples_per_s=progress.timed_samples / progress.train_s if progress.train_s else 0.0,
        wall_s=progress.wall_s,
        setup_s=session.phases.total_s(),
        parameters=model.count_params(),
        trainable_parameters=sum(int(np.prod(weight.shape)) for weight in model.trainable_weights),
        model_bytes=sum(weight.nbytes for weight in weights_of(model.weights)),
        after_best_share=stopping.after_best_share,
        stopped_early=stopped_early,
        metrics={name: MetricSummary(last=value, best=value) for name, value in tested.items()},
    )
