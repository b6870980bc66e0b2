"""A job that the tests of the command line share, and services that answer as a test says."""

import subprocess
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import SHORT, hora_process
from tests.unit.hora.played import Answer, connect


@pytest.fixture(scope="session")
def submission(stack: Stack) -> subprocess.CompletedProcess[str]:
    """A submission of a short job that was watched to its end."""
    return hora_process(stack.home, "submit", *SHORT, "--set", "name=shared", "--wait")


@pytest.fixture(scope="session")
def job(submission: subprocess.CompletedProcess[str], client: Service) -> Mapping[str, Any]:
    """The job of that submission."""
    assert submission.returncode == 0, submission.stderr
    (listed_job,) = client.jobs(name="shared")
    return client.job(listed_job["id"])


@pytest.fixture
def answer_with(monkeypatch: pytest.MonkeyPatch) -> Callable[[Answer], None]:
    """Lets the commands talk to a service that answers so."""
    return partial(connect, monkeypatch)
