"""Finds the steps that optimizers of PyTorch make."""

from __future__ import annotations

import functools
import sys
from types import MethodType
from typing import Any

from hora.hooks.weights import Steps, Sums, is_watching, say_uncompared

_SHARDED = ("DTensor", "FlatParameter", "ShardedTensor")  # classes of weights of which each rank has a part


def watch_optimizers(module: Any) -> None:
    """Note each step of every optimizer that is made from now on."""
    optimizer = module.Optimizer
    begin = optimizer.__init__

    @functools.wraps(begin)
    def noted_begin(self: Any, *args: Any, **kwargs: Any) -> None:
        begin(self, *args, **kwargs)
        if is_watching():
            _note_steps(self)

    optimizer.__init__ = noted_begin


def _note_steps(optimizer: Any) -> None:
    calls, steps = 0, None

    def step(self: Any, *args: Any, **kwargs: Any) -> Any:
        nonlocal calls, steps
        if steps is None:  # before the step: an optimizer that makes its steps through others comes before them
            steps = Steps(self, _parameters_of(self), _sums, lambda _: calls)
        result = type(self).step(self, *args, **kwargs)
        calls += 1
        cuda = getattr(sys.modules["torch"], "cuda", None)
        if cuda is None or not cuda.is_available() or not cuda.is_current_stream_capturing():
            steps.made_one()
        return result

    step.__name__ = "step"
    optimizer.step = MethodType(step, optimizer)


def _parameters_of(optimizer: Any) -> list[Any]:
    return [parameter for group in optimizer.param_groups for parameter in group["params"]]


def _sums(optimizer: Any) -> Sums:
    import torch

    parameters = [parameter.detach() for parameter in _parameters_of(optimizer) if parameter.requires_grad]
    if "deepspeed" in sys.modules or any(type(each).__name__ in _SHARDED for each in _parameters_of(optimizer)):
        say_uncompared("Each rank holds a part of the model (FSDP or DeepSpeed).")
        return
    for parameter in parameters:
        total, norm = parameter.sum(dtype=torch.float64), torch.linalg.vector_norm(parameter, dtype=torch.float64)
        yield parameter.numel(), total.item(), norm.item()
