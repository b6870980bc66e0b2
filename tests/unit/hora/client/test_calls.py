"""Calls that are sent as archives: packed here, and run by `hora.run` in a process of its own, outside of Hora."""

import importlib
import json
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest

from hora.client import Client
from hora.client.calls import COMMAND, error_of, packed_call, value_of
from hora.errors import HoraError, JobFailed, NotFound, ScriptFailed
from hora.service import Service
from jobs.views.jobs import JobView
from tests.unit.hora.played import ended, in_turn, json_answer
from tests.unit.hora.played import job as played_job

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
    assert error["message"].startswith("Python 3.7 sent this function, and here is Python 3.")


class Left(Service):
    """A service that has only what a rank has left."""

    def __init__(self, **files: bytes) -> None:
        self._files = files

    def download_artifact(self, job_id: str, path: str, target: Path) -> Path:  # type: ignore[override]
        name = path.replace(".", "_")
        if name not in self._files:
            raise NotFound(404, "Artifact not found")
        target.write_bytes(self._files[name])
        return target


def job(reason: str, **changes: Any) -> JobView:
    status = "succeeded" if reason == "completed" else "failed"
    return JobView.model_validate(ended(status, reason, **changes))


class Unreadable(ValueError):
    def __init__(self, field: str, limit: int) -> None:
        super().__init__(field)


def error_json(text: str) -> bytes:
    return json.dumps({"type": "E", "message": "m", "traceback": text}).encode()


def test_an_exception_that_cannot_be_read_here_comes_back_as_text() -> None:
    service = Left(error_json=error_json("Unreadable: batch_size"), error_pickle=pickle.dumps(Unreadable("a", 1)))
    error = error_of(service, job("script_failed", error="the script exited with 1"))
    assert isinstance(error, ScriptFailed)
    assert (error.traceback, error.job.end_reason) == ("Unreadable: batch_size", "script_failed")
    assert "the script exited with 1" in str(error)


def test_an_exception_of_another_rank_or_another_end_is_no_exception_of_the_function() -> None:
    assert error_of(Left(), job("script_failed")) is None
    assert error_of(Left(error_json=error_json("of an earlier attempt")), job("rank_failed")) is None
    text = "ModuleNotFoundError: No module named 'cloudpickle'"
    service = Left(error_json=error_json(text), error_pickle=pickle.dumps(ModuleNotFoundError(text)))
    error = error_of(service, job("script_failed"))
    assert 'requirements=["cloudpickle"]' in cast("Any", error).__notes__[0]


def test_a_function_that_ended_the_process_left_no_value() -> None:
    assert value_of(Left(result_pickle=pickle.dumps(41)), job("completed")) == 41
    with pytest.raises(ScriptFailed, match="the function ended the process before it returned a value"):
        value_of(Left(), job("completed"))


async def coroutine() -> int:
    return 1


def generator() -> Iterator[int]:
    yield 1


def test_what_is_no_call_is_refused_before_it_is_sent() -> None:
    client = Client("http://hora.test", "secret", transport=in_turn()[0])
    for function, fields, message in (
        (41, {}, "run calls a function, and 41 is none"),
        (coroutine, {}, "a coroutine has no value"),
        (partial(generator), {}, "a generator cannot come back"),
        (print, {"command": ["x"], "code": "0a"}, "run sets code and command itself"),
    ):
        with pytest.raises(TypeError, match=message):
            client.jobs.run(function, **fields)  # type: ignore[arg-type]
    with pytest.raises(HoraError, match=r"The call cannot be sent: cannot pickle 'generator' object"):
        packed_call(print, [(number for number in range(3))], None)


def test_a_job_that_another_rank_ended_is_a_failed_job() -> None:
    transport, requests = in_turn(
        json_answer({"digest": "0a" * 32}), json_answer(played_job(), 201),
        json_answer(ended("failed", "script_failed", error="batch of 4096")),
        json_answer({"title": "Artifact not found"}, 404),
    )  # fmt: skip
    client = Client("http://hora.test", "secret", transport=transport)
    with pytest.raises(JobFailed, match="batch of 4096") as raised:
        client.jobs.run(print, params={"lr": 0.1})
    assert type(raised.value) is JobFailed
    sent = json.loads(requests[1].content)
    assert sent == {"name": "print", "gpus": 1, "params": {"lr": 0.1}, "code": "0a" * 32, "command": list(COMMAND)}
