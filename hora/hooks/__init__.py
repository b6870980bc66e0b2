"""What a script's own imports need on a rank: `install` looks at them, and some modules are changed as they come in.

`sitecustomize.py` calls it in every Python that a script starts. Standard library only, for Python 3.9 and newer.

    horovod.tensorflow, horovod._keras      do with Keras 3 what their documentation says (`hora.hooks.horovod_keras`)
    keras, torch.optim                      tell the weights of this rank after some steps (`hora.hooks.weights`)
    sparkdl                                 is `hora.hooks.horovod_runner`, where the package is not installed
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from types import ModuleType

_CHANGES = {  # by module: the module here, and its function, which gets that module
    "horovod.tensorflow": ("horovod_keras", "change_horovod"),
    "horovod.torch.mpi_ops": ("weights", "change_torch_of_horovod"),
    "horovod._keras": ("horovod_keras", "change_optimizer"),
    "horovod._keras.callbacks": ("horovod_keras", "change_callbacks"),
    "keras.src.backend.tensorflow.trainer": ("keras_steps", "watch_fit"),
    "keras.src.optimizers.base_optimizer": ("keras_steps", "watch_optimizers"),
    "keras.src.optimizers.loss_scale_optimizer": ("horovod_keras", "change_loss_scaling"),
    "keras.src.trainers.trainer": ("horovod_keras", "change_trainer"),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": ("keras_steps", "watch_functions"),
    "torch.optim.optimizer": ("torch_steps", "watch_optimizers"),
}
_STAND_INS = {"sparkdl": "horovod_runner"}


class _Changing:
    """Finds the modules above as all other finders do, and changes them right after their code has run."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        change = _CHANGES.get(name)
        if change is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _change_after(spec, *change)
                return spec
        return None


def _change_after(spec: ModuleSpec, own: str, function: str) -> None:
    loader = spec.loader
    assert loader is not None
    run = loader.exec_module

    def run_and_change(module: ModuleType) -> None:
        run(module)
        _CHANGES.pop(spec.name, None)
        try:
            getattr(importlib.import_module(f"{__name__}.{own}"), function)(module)
        except Exception as error:  # another version than those that are known: the script still runs
            print(f"warning: Hora could not adapt {spec.name}: {type(error).__name__}: {error}", file=sys.stderr)

    loader.exec_module = run_and_change  # type: ignore[method-assign]


class _StandingIn:
    """Finds what no other finder has found."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        own = _STAND_INS.get(name)
        return spec_from_file_location(name, f"{__path__[0]}/{own}.py") if own else None


def install() -> None:
    """Look at what is imported from now on."""
    sys.meta_path.insert(0, _Changing())
    sys.meta_path.append(_StandingIn())
