"""The network in training, with its optimizer and its two steps: builds, restores and saves it. Used by the session."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from jobs.model.launch import Launch
from jobs.model.plan import Plan
from jobs.model.spec import Spec
from trainer import distributed
from trainer.averaging import on_this_rank
from trainer.callbacks import Weights, weights_of
from trainer.checkpoint import Checkpoint, CheckpointStore
from trainer.data.interfaces import Batch, Facts, Target
from trainer.data.texts import digest_of
from trainer.distributed import Ranks, fail_together
from trainer.errors import BadData
from trainer.losses import training_loss_of
from trainer.measures import measures_of
from trainer.mirrored import Mirrored, Replica, equalize
from trainer.models import build_model, build_optimizer, load_initial_weights, moving_statistics
from trainer.pipeline import PIPELINES
from trainer.plan import steps_of
from trainer.state import State
from trainer.steps import (
    StepFunction,
    accumulated,
    check_compiles,
    make_evaluation_step,
    make_gradients,
    make_train_step,
)

_SEED_STRIDE = 1_000_003  # between the random seeds of two ranks


@dataclass(frozen=True)
class TrainableModel:
    """A network and its optimizer, with all their variables, and the two steps on them.

    With the strategy `mirrored` they are those of the first replica, and `mirrored` runs the steps on all of them.
    """

    replicas: Sequence[Replica]
    train_step: StepFunction
    evaluation_step: StepFunction
    mirrored: Mirrored | None = None
    vocabulary: str | None = None  # of texts: the digest of the words that the weights are for

    @property
    def model(self) -> keras.Model:
        """The network."""
        return self.replicas[0].model

    @property
    def optimizer(self) -> keras.optimizers.Optimizer:
        """Its optimizer."""
        return self.replicas[0].optimizer

    @property
    def copies_of_weights(self) -> list[list[keras.Variable]]:
        """The weights of each replica; they are equal between two steps."""
        return [replica.model.weights for replica in self.replicas]

    @property
    def learning_rate(self) -> float:
        """The optimizer's rate, as the shortest number with the same float32: 0.001 and not 0.00100000005."""
        return float(str(np.float32(self.optimizer.learning_rate.numpy())))


def build(launch: Launch, plan: Plan, facts: Facts) -> TrainableModel:
    """The network and its optimizer with seeded weights, equal on every rank."""
    mirrored = mirrored_of(launch)
    replicas = build_replicas(launch, plan, facts, mirrored)
    train_step = build_train_step(launch, facts, plan, replicas, mirrored)
    measures = measures_of(facts)
    steps = [make_evaluation_step(replica.model, measures=measures, jit=launch.spec.jit) for replica in replicas]
    evaluation_step = steps[0] if mirrored is None else mirrored.evaluation_step(steps)
    # Traced here, so that no epoch's time includes it.
    size = plan.per_gpu_batch * len(replicas)
    evaluation_step(*blank_batch(facts, size), np.zeros(size, np.float32))
    vocabulary = digest_of(facts.vocabulary) if facts.are_texts else None
    return TrainableModel(replicas, train_step, evaluation_step, mirrored, vocabulary)


def mirrored_of(launch: Launch) -> Mirrored | None:
    """The devices of this process, if it has several: with the strategy `mirrored`."""
    replicas = launch.gpus // launch.spec.ranks_on(launch.gpus)
    return Mirrored.on(launch.device, replicas) if replicas > 1 else None


def build_replicas(launch: Launch, plan: Plan, facts: Facts, mirrored: Mirrored | None) -> list[Replica]:
    """The network and its optimizer, on each device of this process."""

    def make() -> Replica:
        model = build_model(launch.spec, facts, models=launch.models)
        return Replica(model, build_optimizer(launch.spec, plan, model))

    return [make()] if mirrored is None else mirrored.build(make)


def build_train_step(
    launch: Launch,
    facts: Facts,
    plan: Plan,
    replicas: Sequence[Replica],
    mirrored: Mirrored | None,
    *,
    alone: bool = False,
) -> StepFunction:
    """The step of a job. `alone` makes it without the other ranks. Raises `BadData` if XLA cannot compile it."""
    spec = launch.spec
    measures, loss_of = measures_of(facts), training_loss_of(spec, facts)
    of_batch = [
        make_gradients(each.model, each.optimizer, measures=measures, loss_of=loss_of, jit=spec.jit)
        for each in replicas
    ]
    if spec.jit:
        check_compiles(of_batch[0], blank_batch(facts, plan.per_gpu_batch))
    gradients_of = [
        accumulated(of_one, each.model, batches=plan.accumulate, figures=measures.figures)
        for of_one, each in zip(of_batch, replicas, strict=True)
    ]
    statistics = [moving_statistics(each.model) for each in replicas]
    if mirrored is not None:
        return mirrored.train_step(replicas, gradients_of, statistics)
    averaging = PIPELINES[launch.device].averaging(spec.allreduce)
    if alone:
        averaging = replace(averaging, exchange=on_this_rank)
    (own,) = replicas
    return make_train_step(gradients_of[0], own.model, own.optimizer, statistics[0], average=averaging)


def blank_batch(facts: Facts, size: int) -> Batch:
    """A batch with nothing on it."""
    target = Target(facts.shape, facts.classes, facts.task, targets=facts.outputs)
    return Batch(np.zeros((size, *facts.shape), facts.dtype), np.zeros((size, *target.label_shape), target.label_dtype))


def restore(
    store: CheckpointStore, trainable: TrainableModel, launch: Launch, plan: Plan, ranks: Ranks
) -> tuple[State, Weights | None]:
    """Continue from the newest checkpoint, or from the start. Returns the state, and on rank 0 the best weights.

    Only rank 0 reads. It broadcasts the values, also on a first start, so that all ranks begin equal.
    """
    checkpoint = fail_together(lambda: _read(store, trainable, launch) if ranks.rank == 0 else None)
    texts = distributed.gather(checkpoint.state.to_json() if checkpoint else None)
    distributed.broadcast([*trainable.model.variables, *trainable.optimizer.variables])
    equalize(trainable.replicas)
    for number, replica in enumerate(trainable.replicas, ranks.rank):
        for variable in random_states(replica.model):  # else all would drop out the same units
            variable.assign_add([number * _SEED_STRIDE, 0])
    if texts[0] is None:
        return State(ranks=plan.gpus, global_batch=plan.global_batch, vocabulary=trainable.vocabulary), None
    state = State.from_json(texts[0])
    print(_going_on(state, plan), flush=True)
    state = state.on_plan(ranks=plan.gpus, global_batch=plan.global_batch, steps_per_epoch=steps_of(plan)[0])
    best_weights = list(checkpoint.arrays["best"]) if checkpoint and "best" in checkpoint.arrays else None
    return state, best_weights


def _read(store: CheckpointStore, trainable: TrainableModel, launch: Launch) -> Checkpoint | None:
    """Set every variable from the newest checkpoint, or from that of another job from which this one continues.

    Without one, load the weights that the spec names. Raises `BadData`, also if the weights of the checkpoint are for
    other words.
    """
    groups = {"model": trainable.model.variables, "optimizer": trainable.optimizer.variables}
    shapes = {group: [tuple(variable.shape) for variable in variables] for group, variables in groups.items()}
    checkpoint = store.begin(shapes)
    if checkpoint is None and launch.spec.continue_from is not None:
        checkpoint = _of_other_job(store, launch.spec, shapes)
    if checkpoint is None:
        load_initial_weights(trainable.model, launch.spec, launch, vocabulary=trainable.vocabulary)
        return None
    if checkpoint.state.vocabulary != trainable.vocabulary:
        raise BadData(
            "dataset.source: the texts have changed since this job began, and their most frequent words are others than"
            " those that its weights are for: submit it as a new job"
        )
    for group, variables in groups.items():
        for variable, value in zip(variables, checkpoint.arrays[group], strict=True):
            variable.assign(value)
    return checkpoint


def _of_other_job(store: CheckpointStore, spec: Spec, shapes: dict[str, list[tuple[int, ...]]]) -> Checkpoint:
    """The checkpoint with which the job continues another one. Raises `BadData` if it does not fit."""
    try:
        checkpoint = store.of_other_job(shapes)
    except (LookupError, ValueError) as error:
        raise BadData(f"continue_from: {spec.continue_from} cannot be continued: {error}") from None
    stopping = spec.early_stopping
    lacks_best = stopping is not None and stopping.restore_best_weights and "best" not in checkpoint.arrays
    return replace(checkpoint, state=checkpoint.state.for_next_job(lacks_best=lacks_best))


def random_states(model: keras.Model) -> list[keras.Variable]:
    """The states of the layers' random generators: variables of the model that are not weights."""
    weights = {id(variable) for variable in model.weights}
    return [variable for variable in model.variables if id(variable) not in weights]


def _going_on(state: State, plan: Plan) -> str:
    text = f"going on from step {state.progress.step}"
    if state.ranks != plan.gpus:
        text += (
            f" on {plan.gpus} GPUs or CPU slots instead of {state.ranks}: the global batch was {state.global_batch} and"
            f" is now {plan.global_batch}, the learning rate is {plan.learning_rate:g}"
        )
    return text


def save(store: CheckpointStore, trainable: TrainableModel, state: State, best_weights: Weights | None) -> Path:
    """Write what `restore` reads. Raises `NoSpace`."""
    model_bytes, optimizer_bytes = _bytes_of(trainable)
    store.require_space(model_bytes + optimizer_bytes + sum(array.nbytes for array in best_weights or ()))
    arrays = {"model": weights_of(trainable.model.variables), "optimizer": weights_of(trainable.optimizer.variables)}
    if best_weights is not None:
        arrays["best"] = best_weights
    return store.save(Checkpoint(state, arrays))


def storage_of(trainable: TrainableModel, *, keeps_best: bool) -> dict[str, int]:
    """The size of a checkpoint and of the artifacts, about: two of those have the weights, and none the optimizer."""
    model_bytes, optimizer_bytes = _bytes_of(trainable)
    checkpoint_bytes = model_bytes * (2 if keeps_best else 1) + optimizer_bytes
    return {"checkpoint_bytes": checkpoint_bytes, "artifact_bytes": 2 * model_bytes}


def _bytes_of(trainable: TrainableModel) -> tuple[int, int]:
    """The size of the variables of the network, and of those of its optimizer."""
    model_bytes, optimizer_bytes = (
        sum(prod(variable.shape) * tf.as_dtype(variable.dtype).size for variable in variables)
        for variables in (trainable.model.variables, trainable.optimizer.variables)
    )
    return model_bytes, optimizer_bytes


def keep_best_weights(trainable: TrainableModel, best_weights: Weights | None) -> None:
    """Give every rank the best weights of rank 0. Only rank 0 has those of an earlier attempt."""
    if best_weights is not None:
        for variable, value in zip(trainable.model.weights, best_weights, strict=True):
            variable.assign(value)
    distributed.broadcast(trainable.model.weights)
    equalize(trainable.replicas)
