"""Lets Horovod 0.28 do with Keras 3 what its documentation says. Objects of Keras 2 are left to Horovod itself.

Keras 3 never calls the hooks in which Horovod's optimizer averages the gradients, and its variables are no variables of
TensorFlow. Each change here takes a module that was just imported. TensorFlow and Keras are imported by then.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from hora.hooks.weights import noting_averages


def of_keras_3(thing: object) -> bool:
    """Whether this is an object of Keras 3."""
    is_keras = any(each.__module__.startswith("keras.src.") for each in type(thing).__mro__)
    return is_keras and getattr(sys.modules.get("keras"), "__version__", "2") >= "3"


def of_tensorflow(variable: Any) -> Any:
    """The variable of TensorFlow that is in a variable of Keras 3; any other thing as it is."""
    return variable.value if of_keras_3(variable) else variable


# -- horovod.tensorflow: variables ------------------------------------------------------------------------------------


def change_horovod(horovod: Any) -> None:
    """Let `broadcast_variables` and the gradient tape take variables of Keras 3. Note when gradients are averaged."""
    for name in ("_allreduce", "_grouped_allreduce"):
        setattr(horovod, name, noting_averages(getattr(horovod, name)))
    from horovod.tensorflow import functions

    broadcast = functions.broadcast_variables

    @functools.wraps(broadcast)
    def broadcast_variables(variables: Iterable[Any], *args: Any, **kwargs: Any) -> Any:
        return broadcast([of_tensorflow(variable) for variable in variables], *args, **kwargs)

    horovod.broadcast_variables = functions.broadcast_variables = broadcast_variables
    tape = horovod._DistributedGradientTape
    tape.gradient = _with_variables(tape.gradient, position=1)
    tape.register_local_source = _with_variables(tape.register_local_source, position=0)


def _with_variables(method: Callable[..., Any], *, position: int) -> Callable[..., Any]:
    """The method, whose argument at this position may have variables of Keras 3 in it, at any depth."""

    @functools.wraps(method)
    def changed(self: Any, *args: Any, **kwargs: Any) -> Any:
        import tensorflow as tf

        given = list(args)
        if len(given) > position:
            given[position] = tf.nest.map_structure(of_tensorflow, given[position])
        elif "sources" in kwargs:
            kwargs["sources"] = tf.nest.map_structure(of_tensorflow, kwargs["sources"])
        return method(self, *given, **kwargs)

    return changed


# -- horovod._keras: the optimizer ------------------------------------------------------------------------------------


def change_optimizer(impl: Any) -> None:
    """Let the optimizer of Keras 3 that `DistributedOptimizer` gives average its gradients."""
    of_keras_2, load_of_keras_2 = impl.create_distributed_optimizer, impl.load_model

    def create_distributed_optimizer(keras: Any, optimizer: Any, name: str | None, *args: Any, **kwargs: Any) -> Any:
        if not of_keras_3(optimizer):
            return of_keras_2(keras, optimizer, name, *args, **kwargs)
        return _averaging(optimizer, name, *args, **kwargs)

    def load_model(keras: Any, wrap_optimizer: Any, filepath: Any, optimizers: Any, objects: Any, *rest: Any) -> Any:
        if "keras.src" not in sys.modules or not keras.Model.__module__.startswith("keras.src."):
            return load_of_keras_2(keras, wrap_optimizer, filepath, optimizers, objects, *rest)
        own = {each.__name__: each for each in optimizers or ()}
        model = keras.models.load_model(filepath, custom_objects={**own, **(objects or {})})
        if model.optimizer is not None:
            wrap_optimizer(lambda: model.optimizer)()
        return model

    impl.create_distributed_optimizer, impl.load_model = create_distributed_optimizer, load_model


class Averaging:
    """Averages the gradients of all ranks before a Keras 3 optimizer applies them. A class for `_averaging` to mix in.

    `reduce` takes gradients and variables of TensorFlow, and returns the gradients of all ranks.
    """

    _reduce: Callable[[Sequence[Any], Sequence[Any]], Sequence[Any]]
    _local: set[Any]
    _scales_local: bool
    _size: Callable[[], int]
    _is_reduced = False

    def register_local_var(self, variable: Any) -> None:
        """Leave the gradients of this variable to each rank, as Horovod's method of this name."""
        self._local.add(of_tensorflow(variable).ref())

    def averaged(self, gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        """The gradients over all ranks; those of local variables, divided by the number of ranks, are kept."""
        variables = [of_tensorflow(variable) for variable in variables]
        shared = [index for index, variable in enumerate(variables) if variable.ref() not in self._local]
        result = list(gradients)
        if self._local and self._scales_local:
            result = [_times(gradient, 1 / self._size()) for gradient in result]
        reduced = self._reduce([gradients[index] for index in shared], [variables[index] for index in shared])
        for index, gradient in zip(shared, reduced):  # noqa: B905 - Python 3.9
            result[index] = gradient
        return result

    @contextmanager
    def reduced(self) -> Iterator[None]:
        """Within it the gradients that come are averaged already."""
        self._is_reduced = True
        try:
            yield
        finally:
            self._is_reduced = False

    def apply(self, grads: Sequence[Any], trainable_variables: Iterable[Any] | None = None) -> Any:
        """Average the gradients, and apply them."""
        variables = None if trainable_variables is None else list(trainable_variables)
        if not self._is_reduced and len(grads):
            grads = self.averaged(grads, variables or self._trainable_variables)  # type: ignore[attr-defined]
        return super().apply(grads, variables)  # type: ignore[misc]


def _averaging(
    optimizer: Any,
    name: str | None,
    device_dense: str,
    device_sparse: str,
    compression: Any,
    sparse_as_dense: bool,
    gradient_predivide_factor: float,
    op: Any,
    backward_passes_per_step: int = 1,
    average_aggregated_gradients: bool = False,
    groups: Any = None,
    process_set: Any = None,
    scale_local_gradients: bool = True,
) -> Any:
    """The same optimizer, which now averages. Its class keeps its name, so that a saved model loads without Horovod.

    Horovod sums the gradients of several passes where Keras takes their mean, so they are scaled to Horovod's sum.
    """
    import horovod.tensorflow as hvd

    if isinstance(optimizer, Averaging):
        return optimizer
    inner = getattr(optimizer, "inner_optimizer", None)  # of one that scales the loss, which checks for overflow first
    if inner is not None:
        optimizer.inner_optimizer = _averaging(
            inner, name, device_dense, device_sparse, compression, sparse_as_dense, gradient_predivide_factor, op,
            backward_passes_per_step, average_aggregated_gradients, groups, process_set, scale_local_gradients,
        )  # fmt: skip
        return optimizer
    base, process_set = type(optimizer), process_set or hvd.global_process_set
    if isinstance(groups, list):
        groups = [[of_tensorflow(variable) for variable in group] for group in groups]
    reduce = hvd._make_allreduce_grads_fn(
        name or f"Distributed{base.__name__}", device_dense, device_sparse, compression, sparse_as_dense, op,
        gradient_predivide_factor, groups, process_set=process_set,
    )  # fmt: skip
    if backward_passes_per_step > 1:
        if optimizer.built or optimizer.gradient_accumulation_steps:
            raise ValueError(
                "backward_passes_per_step must be 1 for an optimizer that has trained, or that has "
                "gradient_accumulation_steps; set gradient_accumulation_steps on the optimizer instead"
            )
        optimizer.gradient_accumulation_steps = backward_passes_per_step
        if not average_aggregated_gradients:
            reduce = _scaled(reduce, backward_passes_per_step)
    optimizer.__class__ = type(base.__name__, (Averaging, base), {
        "__module__": base.__module__, "__qualname__": base.__qualname__, "_size": staticmethod(process_set.size),
        "_reduce": staticmethod(reduce), "_local": set(), "_scales_local": scale_local_gradients,
    })  # fmt: skip
    return optimizer


def _scaled(reduce: Callable[..., Sequence[Any]], passes: int) -> Callable[..., list[Any]]:
    def scaled(gradients: Sequence[Any], variables: Sequence[Any]) -> list[Any]:
        return [_times(gradient, passes) for gradient in reduce(gradients, variables)]

    return scaled


def _times(gradient: Any, factor: float) -> Any:
    """A gradient, which may be None, or have values for some rows only."""
    if gradient is None or not hasattr(gradient, "indices"):
        return None if gradient is None else gradient * factor
    return type(gradient)(gradient.values * factor, gradient.indices, gradient.dense_shape)


def change_loss_scaling(module: Any) -> None:
    """Average before the gradients are looked at for overflow: all ranks must agree on whether they make the step."""
    scaling = module.LossScaleOptimizer
    apply_of_keras = scaling.apply

    def apply(self: Any, grads: Sequence[Any], trainable_variables: Iterable[Any] | None = None) -> Any:
        inner = self.inner_optimizer
        if not isinstance(inner, Averaging):
            return apply_of_keras(self, grads, trainable_variables)
        variables = list(trainable_variables or self._trainable_variables)
        with inner.reduced():
            return apply_of_keras(self, inner.averaged(grads, variables), variables)

    scaling.apply = apply


# -- Keras: the trainer ----------------------------------------------------------------------------------------


def change_trainer(trainer: Any) -> None:
    """Compile no model with XLA where Horovod is used: it has no kernels of Horovod's operations."""
    supports = trainer.model_supports_jit
    trainer.model_supports_jit = lambda model: "horovod.tensorflow" not in sys.modules and supports(model)


# -- horovod._keras.callbacks -----------------------------------------------------------------------------------------


def change_callbacks(callbacks: Any) -> None:
    """Let the callbacks read and set what Keras 3 has in other places."""
    _change_broadcast(callbacks.BroadcastGlobalVariablesCallbackImpl)
    callbacks.MetricAverageCallbackImpl._average_metrics_in_place = _average_metrics
    _change_schedule(callbacks.LearningRateScheduleCallbackImpl)
    _change_warmup(callbacks.LearningRateWarmupCallbackImpl, callbacks.LearningRateScheduleCallbackImpl)


def _change_broadcast(callback: Any) -> None:
    broadcast_of_keras_2 = callback.on_batch_end
    callback.register_local_var = _with_variables(callback.register_local_var, position=0)

    def broadcast(self: Any) -> None:
        import horovod.tensorflow as hvd
        import tensorflow as tf

        variables = [of_tensorflow(variable) for variable in self.model.variables]
        shared = [variable for variable in variables if variable.ref() not in self._local_vars]
        if self.model.optimizer is not None:
            if not self.model.optimizer.built:
                self.model.optimizer.build(self.model.trainable_variables)  # the ranks must send as many variables
            shared += [of_tensorflow(variable) for variable in self.model.optimizer.variables]
        with tf.device(self.device):
            hvd.broadcast_variables(shared, root_rank=self.root_rank)
        self.broadcast_done = True

    def on_train_begin(self: Any, logs: Any = None) -> None:
        """Broadcast before the first step where the model is built: then that step is of equal weights too."""
        if of_keras_3(self.model) and self.model.built and not self.broadcast_done:
            broadcast(self)

    def on_batch_end(self: Any, batch: int, logs: Any = None) -> None:
        if not of_keras_3(self.model):
            broadcast_of_keras_2(self, batch, logs)
        elif not self.broadcast_done:
            broadcast(self)

    callback.on_train_begin, callback.on_batch_end = on_train_begin, on_batch_end


def _average_metrics(self: Any, logs: dict[str, Any] | None = None) -> None:
    import horovod.tensorflow as hvd
    import tensorflow as tf

    for metric in sorted(logs or ()):
        assert logs is not None
        with tf.device(self.device):
            value = tf.constant(logs[metric], tf.float64)
            mean = hvd.allreduce(value, op=hvd.Average, name=f"metric {metric}").numpy()
        logs[metric] = mean if mean.ndim else float(mean)


def _change_schedule(callback: Any) -> None:
    adjust_of_keras_2 = callback._adjust_learning_rate
    began_of_keras_2, ended_of_keras_2 = callback.on_train_begin, callback.on_epoch_end

    def on_train_begin(self: Any, logs: Any = None) -> None:
        began_of_keras_2(self, logs)
        if of_keras_3(self.model) and self.momentum_correction and getattr(self.model.optimizer, "momentum", 0.0):
            import horovod.tensorflow as hvd

            if hvd.rank() == 0:
                print(
                    f"warning: {type(self).__name__} does not correct the momentum: Keras 3 cannot change it while it "
                    "trains; set momentum_correction=False to agree",
                    flush=True,
                )

    def adjust(self: Any, epoch: float) -> None:
        if not of_keras_3(self.model):
            adjust_of_keras_2(self, epoch)
        else:
            self.model.optimizer.learning_rate = self.initial_lr * self.multiplier(epoch)

    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        if not of_keras_3(self.model):
            ended_of_keras_2(self, epoch, logs)
        elif logs is not None:
            logs["lr"] = float(self.model.optimizer.learning_rate)

    callback._adjust_learning_rate = adjust
    callback.on_train_begin, callback.on_epoch_end = on_train_begin, on_epoch_end


def _change_warmup(callback: Any, schedule: Any) -> None:
    ended_of_keras_2 = callback.on_epoch_end

    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> None:
        if not of_keras_3(self.model):
            ended_of_keras_2(self, epoch, logs)
            return
        schedule.on_epoch_end(self, epoch, logs)
        if epoch == self.end_epoch - 1 and self.verbose > 0:
            import horovod.tensorflow as hvd

            if hvd.rank() == 0:
                rate = float(self.model.optimizer.learning_rate)
                print(f"\nEpoch {epoch + 1}: finished gradual learning rate warmup to {rate:g}.")

    callback.on_epoch_end = on_epoch_end
