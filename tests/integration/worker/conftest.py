"""Real child processes with an attempt's mark, all ended after the test; an agent; GPUs of a stub."""

import ctypes
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from uuid import uuid4

import pynvml
import pytest

from jobs.db.engine import Sessions
from jobs.runtime.hints import Hints
from jobs.runtime.processes import MARK
from jobs.runtime.settings import Settings
from tests.integration.worker.agents import MakeAgent, agent_of
from tests.integration.worker.samples import MakeSampler
from tests.nvml import build_stub
from tests.receivers import Receiver, receiving
from tests.waiting import until
from worker.agent import Agent
from worker.attempt.members import Members
from worker.attempt.processes import sweep
from worker.host.gpus import find_gpus
from worker.sampling.sampler import Sampler

Start = Callable[..., "subprocess.Popen[bytes]"]


def pid_in(file: Path) -> int:
    """The pid that a process writes into this file, once it is there."""
    return int(until(lambda: file.exists() and file.read_text().strip(), what="a pid"))


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark of this test's own; processes that still carry it after the test are killed."""
    mark = f"test{uuid4().hex}.1"
    yield mark
    assert sweep(mark)


@pytest.fixture
def started(mark: str) -> Iterator[list[Members]]:
    """The members that a test starts. They are released after it."""
    started: list[Members] = []
    yield started
    for members in started:
        with suppress(OSError):
            members.close()


@pytest.fixture
def start(mark: str) -> Iterator[Start]:
    """Start a shell script or an argv with the mark in its environment. It is killed after the test."""
    children = []

    def start(program: str | list[str], **environment: str) -> "subprocess.Popen[bytes]":
        argv = ["sh", "-c", program] if isinstance(program, str) else program
        child = subprocess.Popen(
            argv,
            env={"PATH": os.environ["PATH"], MARK: mark, **environment},
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        children.append(child)
        return child

    yield start
    sweep(mark)
    for child in children:
        child.kill()
        child.wait(10)


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", slots=2, restart_backoff_s=100,
        restart_backoff_limit_s=1000, reconcile_period_s=0.05, heartbeat_period_s=1e-9,
    )  # fmt: skip


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


@pytest.fixture
def make_agent(sessions: Sessions, settings: Settings, hints: Hints) -> MakeAgent:
    return partial(agent_of, sessions, settings, hints)


@pytest.fixture
def agent(make_agent: MakeAgent) -> Agent:
    return make_agent()


@pytest.fixture(scope="session")
def drivers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Folders with a `libnvidia-ml.so.1` that stands in for the driver's: a `new` one and an `old` one."""
    folders = {name: tmp_path_factory.mktemp(name) for name in ("new", "old")}
    build_stub(folders["new"])
    build_stub(folders["old"], "-DOLD")
    return folders


@pytest.fixture
def cards(drivers: dict[str, Path], monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Give this process the stub's cards, a letter each (see nvml_stub.c). May be called again while cards are open."""

    def cards(letters: str, *, driver: str = "new") -> None:
        monkeypatch.setenv("NVML_STUB", letters)
        library = str(drivers[driver] / "libnvidia-ml.so.1")
        if pynvml.nvmlLib is None or pynvml.nvmlLib._name != library:
            monkeypatch.setattr(pynvml, "nvmlLib", ctypes.CDLL(library))
            monkeypatch.setattr(pynvml, "_nvmlGetFunctionPointer_cache", {})

    return cards


@pytest.fixture
def make_sampler(sessions: Sessions, tmp_path: Path) -> MakeSampler:
    """Makes the sampler of host `ha`, with the GPUs that are there."""

    def make_sampler(*, host: str = "ha", report_period_s: float = 0.0) -> Sampler:
        return Sampler(
            sessions, host=host, gpus=find_gpus(), runs_dir=tmp_path, period_s=1.0, report_period_s=report_period_s
        )

    return make_sampler


@pytest.fixture
def sampler(make_sampler: MakeSampler) -> Sampler:
    return make_sampler()
