"""Tells the rank that watches over a script how the weights of its model stand, so that it can compare all ranks.

Ranks that train one model together have equal weights after each step. Nothing else shows that they do not: each rank's
loss falls. `keras_steps` and `torch_steps` say which optimizers make steps.
"""

from __future__ import annotations

import atexit
import functools
import json
import sys
import time
import weakref
from collections.abc import Callable, Iterable
from typing import Any

_FIRST_STEP = 3  # Horovod's callbacks broadcast the weights of rank 0 after the first step
_MOST_OPTIMIZERS = 16
_MOST_KEPT = 3e7  # weights of a model that is kept for its last look, though the script has dropped it
_GOLDEN = 0.6180339887498949
_OTHER_WAYS = ("mpi4py", "jax", "mxnet", "ray")  # to share work between ranks
Sums = Iterable["tuple[int, float, float]"]


class _State:
    """What this process does and has done."""

    compares = True
    averages = False  # whether it has averaged anything
    optimizers = 0  # that have numbers
    kept: Any = None  # the last optimizer that told its weights, if they are few


_parameters: weakref.WeakKeyDictionary[Any, frozenset[int]] = weakref.WeakKeyDictionary()  # of optimizers with numbers


def compare_weights(wanted: bool) -> None:
    """Whether Hora compares the weights of all ranks. Say False first of all where each rank trains a model of its own.

    Without a call it does, for models of Keras and PyTorch, and ranks whose weights differ at the end fail the job.
    """
    _State.compares = bool(wanted)


def is_watching() -> bool:
    """Whether anybody compares the weights of this process with others."""
    from hora.run.given import is_inside, size

    return _State.compares and is_inside and size > 1


class Steps:
    """The steps of one optimizer. It tells its weights after step 3, and whenever the count has doubled."""

    def __init__(
        self, optimizer: Any, parameters: Iterable[Any], sums: Callable[[Any], Sums], count: Callable[[Any], int]
    ) -> None:
        self._optimizer, self._sums, self._count = weakref.ref(optimizer), sums, count
        self._number = _number(optimizer, frozenset(map(id, parameters)))
        self._calls, self._next, self._told = 0, _FIRST_STEP, 0
        if self._number is not None:
            atexit.register(self.tell)

    def made_one(self) -> None:
        """Call it after each step, or after each call that makes steps. `count` is asked only where it is needed."""
        self._calls += 1
        if self._calls == self._next:
            self._next *= 2
            self.tell()

    def tell(self, *, least_growth: float = 1.0) -> None:
        """Tell the weights as they are now, if there were so many times more steps than before. It fails no script."""
        optimizer = self._optimizer()
        if not _State.compares or self._number is None or optimizer is None:
            return
        try:
            step = self._count(optimizer)
            if step > least_growth * self._told:
                self._told = step
                size = _send(self._number, step, self._sums(optimizer))
                _State.kept = optimizer if size <= _MOST_KEPT else None
        except Exception as error:
            self._number = None
            print(f"warning: the weights of ranks are not compared: {type(error).__name__}: {error}", file=sys.stderr)


def _number(optimizer: Any, parameters: frozenset[int]) -> int | None:
    """The number of an optimizer, by the order of first steps. None: a part of one that has a number, or too many."""
    if any(parameters < other for other in list(_parameters.values())):
        return None
    if _State.optimizers == _MOST_OPTIMIZERS:
        say_uncompared(f"Only those of the first {_MOST_OPTIMIZERS} optimizers are compared.")
        return None
    _parameters[optimizer] = parameters
    _State.optimizers += 1
    return _State.optimizers


def say_uncompared(why: str) -> None:
    """Tell people once that some weights are not compared."""
    from hora.run.reports import alert

    alert("Not all weights of the ranks are compared", why, wait_seconds=1e8)


def _send(number: int, step: int, sums: Sums) -> int:
    """Send how many weights there are, their sum and norm; each tensor has a factor, so that its place counts."""
    from hora.run.channel import write

    size, total, square = 0, 0.0, 0.0
    for place, (elements, tensor_sum, tensor_norm) in enumerate(sums, start=1):
        size += elements
        total += (1 + place * _GOLDEN % 1) * tensor_sum
        square += tensor_norm**2
    if size:
        fields = {"at": time.time(), "optimizer": number, "step": step, "size": size, "averages": averages()}
        write(json.dumps({"kind": "weights", **fields, "total": total, "norm": square**0.5}))
    return size


def averages() -> bool:
    """Whether this process has averaged something over ranks, or may have, by a library that is not looked into."""
    distributed = sys.modules.get("torch.distributed")
    is_joined = distributed is not None and distributed.is_available() and distributed.is_initialized()
    return _State.averages or is_joined or any(name in sys.modules for name in _OTHER_WAYS)


def noting_averages(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which averages over ranks."""

    @functools.wraps(function)
    def noted(*args: Any, **kwargs: Any) -> Any:
        _State.averages = True
        return function(*args, **kwargs)

    return noted


def change_torch_of_horovod(mpi_ops: Any) -> None:
    """Note when Horovod averages tensors of PyTorch."""
    for name in ("_allreduce_async", "_grouped_allreduce_async"):
        setattr(mpi_ops, name, noting_averages(getattr(mpi_ops, name)))
