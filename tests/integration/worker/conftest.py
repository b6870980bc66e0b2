"""Real child processes that carry an attempt's mark, and none left after the test."""

import os
import subprocess
from collections.abc import Callable, Iterator
from uuid import uuid4

import pytest

from jobs.processes import MARK
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
