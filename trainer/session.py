"""A rank's run from top to bottom: connect, data, build, restore, train, finish. Called by `trainer.__main__`.

Importing this module imports TensorFlow, Keras and Horovod.
"""

import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import keras
import numpy as np

from jobs.plan import Plan
from jobs.records import DataOpened, Launch, PhaseEnded, Planned, Summarized, Summary
from trainer import distributed
from trainer.callbacks import (
    Callback,
    Checkpointing,
    EarlyStopping,
    EpochRecording,
    StepRecording,
    WarmUp,
    Weights,
    weights_of,
)
from trainer.checkpoint import Checkpoint, CheckpointStore, State, atomic_write
from trainer.data.opening import Dataset, find
from trainer.data.parts import Facts, Host
from trainer.distributed import Ranks, together
from trainer.exits import Outcome
from trainer.loop import Loop, StepFunction, make_evaluation_step, make_train_step
from trainer.models import build_model, build_optimizer
from trainer.plan import settle_plan, steps_of
from trainer.recorder import NullRecorder, Recorder, Records
from trainer.stopping import Stage, StopWatch

_SEED_STRIDE = 1_000_003  # between the random numbers of two ranks


class Phases:
    """Records how long each part of the set-up took."""

    def __init__(self, recorder: Records, started_at: float) -> None:
        self._recorder = recorder
        self._began_at = self._started_at = started_at

    def end(self, name: str) -> None:
        """The part that began when the last one ended is over."""
        now = time.time()
        self._recorder.write(PhaseEnded(at=now, name=name, duration_s=now - self._began_at))
        self._began_at = now

    def total_s(self) -> float:
        """From the start of the process to the end of the last part."""
        return self._began_at - self._started_at


@dataclass(frozen=True)
class Trained:
    """What is trained, with every variable made, and the two steps on it."""

    model: keras.Model
    optimizer: keras.optimizers.Optimizer
    train_step: StepFunction
    evaluation_step: StepFunction

    @property
    def random_states(self) -> list[keras.Variable]:
        """The states of the layers' random generators: variables of the model that are not weights."""
        weights = {id(variable) for variable in self.model.weights}
        return [variable for variable in self.model.variables if id(variable) not in weights]


@dataclass(frozen=True)
class Session:
    """All that is there once the set-up is over; `best_weights` on rank 0 alone, from an earlier attempt."""

    launch: Launch
    ranks: Ranks
    dataset: Dataset
    plan: Plan
    trained: Trained
    store: CheckpointStore
    state: State
    best_weights: Weights | None
    phases: Phases
    recorder: Records  # of this rank
    job_recorder: Records  # of the whole job: writes on rank 0


def run(launch: Launch, started_at: float, recorder: Recorder, watch: StopWatch) -> Outcome:
    """Run this rank of the job. Raises `TrainerError`, or whatever goes wrong in TensorFlow and Horovod."""
    session = set_up(launch, started_at, recorder)
    loop, early_stopping = make_loop(session, watch)
    watch.stage = Stage.TRAINING
    outcome = loop.train()
    if outcome is not Outcome.STOP_REQUESTED:
        watch.stage = Stage.FINISHING
        finish(session, loop, early_stopping, outcome)
    distributed.disconnect()
    return outcome


def set_up(launch: Launch, started_at: float, recorder: Records) -> Session:
    """Everything before the first step."""
    spec = launch.spec
    phases = Phases(recorder, started_at)
    phases.end("import")

    ranks = distributed.connect(launch)
    together(lambda: distributed.claim_devices(launch, ranks.local_rank))
    phases.end("connect")

    dataset = open_dataset(launch, ranks)
    plan = together(lambda: settle_plan(spec, dataset.facts.sizes, ranks=ranks.size))
    distributed.agree("the plan", plan.model_dump(mode="json"))
    phases.end("data")

    trained = together(lambda: build(launch, plan, dataset.facts))
    phases.end("build")

    store = CheckpointStore(Path(launch.checkpoints_dir), keep=spec.checkpoint.keep)
    state, best_weights = restore(store, trained, plan, ranks)
    progress = state.progress
    if progress.step:
        phases.end("restore")

    job_recorder: Records = recorder if ranks.rank == 0 else NullRecorder()
    job_recorder.write(data_opened(dataset.facts))
    job_recorder.write(Planned(at=time.time(), plan=plan, start_epoch=progress.epoch - 1, start_step=progress.step))
    return Session(launch, ranks, dataset, plan, trained, store, state, best_weights, phases, recorder, job_recorder)


def open_dataset(launch: Launch, ranks: Ranks) -> Dataset:
    """Find the data, look at all of it together, and open this rank's view. Raises `BadData` on every rank."""
    spec = launch.spec
    host = Host(
        data_roots=launch.data_roots,
        cache_dir=Path(launch.cache_dir),
        scratch_dir=Path(tempfile.gettempdir()),
        threads=launch.threads_per_rank or max(1, (os.cpu_count() or 1) // ranks.local_size),
    )
    found = together(lambda: find(spec.dataset, seed=spec.seed, host=host))
    surveys = distributed.gather(together(lambda: found.survey(rank=ranks.rank, ranks=ranks.size)))
    dataset = together(lambda: found.open(surveys))
    together(lambda: dataset.prepare(local_rank=ranks.local_rank, local_ranks=ranks.local_size))
    return dataset


def data_opened(facts: Facts, *, named: int = 20) -> DataOpened:
    """What the data turned out to be, as a record."""
    return DataOpened(
        at=time.time(),
        format=facts.format,
        shape=list(facts.shape),
        classes=list(facts.classes),
        train=facts.sizes.train,
        validation=facts.sizes.validation,
        test=facts.sizes.test,
        damaged=len(facts.damaged),
        damaged_files=list(facts.damaged)[:named],
    )


def build(launch: Launch, plan: Plan, facts: Facts) -> Trained:
    """The network and its optimizer with seeded weights, equal on every rank."""
    keras.utils.set_random_seed(launch.spec.seed)
    model = build_model(launch.spec, facts)
    optimizer = build_optimizer(launch.spec, plan, model)
    evaluation_step = make_evaluation_step(model)
    size = plan.per_gpu_batch  # traced here on a blank batch, so that no epoch is charged for it
    evaluation_step(np.zeros((size, *facts.shape), facts.dtype), np.zeros(size, np.int32), np.zeros(size, np.float32))
    return Trained(model, optimizer, make_train_step(model, optimizer), evaluation_step)


def make_loop(session: Session, watch: StopWatch) -> tuple[Loop, EarlyStopping]:
    """The loop with its callbacks, in the order in which they are called."""
    spec, plan, trained, state = session.launch.spec, session.plan, session.trained, session.state

    def write_checkpoint() -> Path | None:
        return save(session, early_stopping) if session.ranks.rank == 0 else None

    def on_first_step() -> None:
        distributed.agree_on_weights(trained.model.weights, "after the first step")
        session.phases.end("first_step")

    early_stopping = EarlyStopping(
        spec.early_stopping, state.stopping, session.best_weights, lambda: weights_of(trained.model.weights)
    )
    warm_up = WarmUp(plan, trained.optimizer)
    checkpointing = Checkpointing(
        write_checkpoint, session.job_recorder, state.progress, every_epochs=spec.checkpoint.every_epochs
    )
    callbacks: list[Callback] = [
        warm_up,
        StepRecording(session.recorder, global_batch=plan.global_batch),
        early_stopping,
        EpochRecording(session.job_recorder, warm_up),
        checkpointing,
    ]
    loop = Loop(
        plan=plan,
        spec=spec,
        ranks=session.ranks,
        dataset=session.dataset,
        train_step=trained.train_step,
        evaluation_step=trained.evaluation_step,
        state=state,
        callbacks=callbacks,
        checkpointing=checkpointing,
        watch=watch,
        on_first_step=on_first_step,
        flush=session.recorder.flush,
    )
    return loop, early_stopping


def restore(store: CheckpointStore, trained: Trained, plan: Plan, ranks: Ranks) -> tuple[State, Weights | None]:
    """Go on from the newest checkpoint, or from the start: the state on every rank, the best weights on rank 0.

    Rank 0 alone reads; what it has is broadcast, on a first start too, so that all ranks begin equal.
    """
    groups = {"model": trained.model.variables, "optimizer": trained.optimizer.variables}
    shapes = {group: [tuple(variable.shape) for variable in variables] for group, variables in groups.items()}
    checkpoint = together(lambda: store.newest(shapes) if ranks.rank == 0 else None)
    if checkpoint:
        for group, variables in groups.items():
            for variable, value in zip(variables, checkpoint.arrays[group], strict=True):
                variable.assign(value)
        print(f"going on from step {checkpoint.state.progress.step}", flush=True)
    texts = distributed.gather(checkpoint.state.to_json() if checkpoint else None)
    distributed.broadcast([*trained.model.variables, *trained.optimizer.variables])
    for variable in trained.random_states:  # else all ranks would drop out the same units
        variable.assign_add([ranks.rank * _SEED_STRIDE, 0])
    state = State.from_json(texts[0]) if texts[0] else State(global_batch=plan.global_batch)
    best_weights = list(checkpoint.arrays["best"]) if checkpoint and "best" in checkpoint.arrays else None
    return state.on_plan(global_batch=plan.global_batch, steps_per_epoch=steps_of(plan)[0]), best_weights


def save(session: Session, early_stopping: EarlyStopping) -> Path:
    """Write what `restore` reads."""
    trained = session.trained
    arrays = {"model": weights_of(trained.model.variables), "optimizer": weights_of(trained.optimizer.variables)}
    if early_stopping.best_weights is not None:
        arrays["best"] = early_stopping.best_weights
    return session.store.save(Checkpoint(session.state, arrays))


def finish(session: Session, loop: Loop, early_stopping: EarlyStopping, outcome: Outcome) -> None:
    """Keep the weights that are to be kept, measure them on the test part, save them, sum up."""
    model, progress, kept = session.trained.model, loop.progress, early_stopping.kept_metrics
    distributed.agree_on_weights(model.weights, "at the end")
    if early_stopping.restores:
        keep_best_weights(model, early_stopping.best_weights if session.ranks.rank == 0 else None)
    test_loss, test_accuracy = None, None
    if session.dataset.test is not None:
        test_loss, test_accuracy, _ = loop.evaluate(session.dataset.test)
    together(lambda: save_weights(model, Path(session.launch.artifacts_dir)) if session.ranks.rank == 0 else None)
    summary = Summary(
        best_epoch=early_stopping.state.best_epoch,
        epochs_run=progress.last_epoch,
        val_accuracy=kept["val_accuracy"],
        val_loss=kept["val_loss"],
        test_accuracy=test_accuracy,
        test_loss=test_loss,
        train_samples_per_s=progress.timed_samples / progress.train_s if progress.train_s else 0.0,
        wall_s=progress.wall_s,
        setup_s=session.phases.total_s(),
        parameters=model.count_params(),
        model_bytes=sum(weight.nbytes for weight in weights_of(model.weights)),
        after_best_share=0.0,
        stopped_early=outcome is Outcome.EARLY_STOPPED,
    )
    session.job_recorder.write(Summarized(at=time.time(), summary=summary))


def keep_best_weights(model: keras.Model, best_weights: Weights | None) -> None:
    """Give every rank the best weights of rank 0, which alone has those of an earlier attempt."""
    if best_weights is not None:
        for variable, value in zip(model.weights, best_weights, strict=True):
            variable.assign(value)
    distributed.broadcast(model.weights)


def save_weights(model: keras.Model, folder: Path) -> None:
    """Write model.weights.h5, whole or not at all."""
    folder.mkdir(parents=True, exist_ok=True)
    with atomic_write(folder / "model.weights.h5") as temporary:
        model.save_weights(temporary)
