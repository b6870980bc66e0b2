"""Real child processes that carry an attempt's mark, and none left after the test; and an agent."""

import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from jobs.database import Sessions
from jobs.hints import Hints
from jobs.processes import MARK
from jobs.settings import Settings
from tests.integration.worker.agents import agent_of
from worker.agent import Agent
from worker.processes import sweep

Start = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def mark() -> Iterator[str]:
    """A mark of this test's own; what still carries it afterwards is killed."""
    mark = f"test{uuid4().hex}.1"
    yield mark
    assert sweep(mark)


@pytest.fixture
def start(mark: str) -> Iterator[Start]:
    """Start a shell's text or an argv with the mark in its environment; it is waited for when the test ends."""
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
def hints(broker: str) -> Iterator[Hints]:
    hints = Hints(broker)
    yield hints
    hints.close()


@pytest.fixture
def agent(sessions: Sessions, settings: Settings, hints: Hints) -> Agent:
    return agent_of(sessions, settings, hints)
