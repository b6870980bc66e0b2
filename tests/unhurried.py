"""Jobs that train for long and need little of a core: their network sleeps at each step."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

MODEL = "unhurried:build"
_FOLDER = Path(__file__).parent / "own_networks"


def allowing(environment: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The variables with which api and workers allow the network."""
    path = environment.get("PYTHONPATH")
    return {"HORA_MODELS": MODEL, "PYTHONPATH": os.pathsep.join([str(_FOLDER), *([path] if path else [])])}


@contextmanager
def unhurried() -> Iterator[None]:
    """The stacks that start in this block allow the network."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in allowing().items():
            patch.setenv(name, value)
        yield
