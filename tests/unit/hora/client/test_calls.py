"""Calls that are sent as archives: packed here, and run by `hora.run` in a process of its own, outside of Hora."""

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hora.client.calls import COMMAND, packed_call
from hora.errors import HoraError

ROOT = Path(__file__).parents[4]
LIBRARY = "class Odd(ValueError): pass\ndef tenfold(x): return 10 * x\ndef raises(): raise Odd('no such column')\n"


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module that is not installed."""
    (tmp_path / "here").mkdir()
    (tmp_path / "here/own_library.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path / "here")
    yield importlib.import_module("own_library")
    del sys.modules["own_library"]


@pytest.fixture
def run_packed(tmp_path: Path) -> Callable[..., int]:
    """Runs a packed call as a rank does, in the folder `there`; its exit code."""

    def run(function: Callable[..., Any], *args: Any, version: tuple[int, int] = sys.version_info[:2]) -> int:
        (file,) = packed_call(function, args, None).files
        assert isinstance(file.content, bytes)
        stated = pickle.dumps(sys.version_info[:2])
        assert file.content.startswith(stated)
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / file.name).write_bytes(pickle.dumps(version) + file.content.removeprefix(stated))
        return subprocess.run(
            [sys.executable, *COMMAND[1:]], cwd=tmp_path / "there", env={"PYTHONPATH": str(ROOT)}, check=False,
            capture_output=True, timeout=60,
        ).returncode  # fmt: skip

    return run


def left_by_rank_0(folder: Path, name: str) -> Any:
    return pickle.loads((folder / "there/artifacts" / name).read_bytes())  # noqa: S301 - made by this test


def test_functions_of_local_modules_bring_these_modules(
    library: Any, run_packed: Callable[..., int], tmp_path: Path
) -> None:
    assert run_packed(lambda x: library.tenfold(x) + 1, 4) == 0
    assert left_by_rank_0(tmp_path, "result.pickle") == 41


def test_an_exception_of_a_local_class_comes_back_as_that_class(
    library: Any, run_packed: Callable[..., int], tmp_path: Path
) -> None:
    assert run_packed(library.raises) == 1
    error = left_by_rank_0(tmp_path, "error.pickle")
    assert (type(error), str(error)) == (library.Odd, "no such column")
    assert "raises" in json.loads((tmp_path / "there/artifacts/error.json").read_text())["traceback"]


def test_another_version_of_python_is_named(run_packed: Callable[..., int], tmp_path: Path) -> None:
    assert run_packed(print, version=(3, 7)) == 1
    error = json.loads((tmp_path / "there/artifacts/error.json").read_text())
    assert error["type"] == "RuntimeError"
    assert error["message"].startswith("Python 3.7 sent this function, and here is Python 3.")


def test_a_call_that_cannot_be_pickled_is_refused() -> None:
    with pytest.raises(HoraError, match=r"The call cannot be sent: cannot pickle 'generator' object"):
        packed_call(print, [(number for number in range(3))], None)
