"""The settings of the stack that the tests of a process share. A test that needs others has a stack of its own."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from hora.service import Service
from tests.unhurried import MODEL, allowing
from tests.waiting import until

SYSTEM_PYTHON = Path("/usr/bin/python3")  # where Debian's PyTorch is
SECRET = secrets.token_hex(16)  # in the environment of the worker and the api
STUBBORN = "stubborn:build"


def data_root(folder: Path) -> Path:
    """Where a test puts data for jobs of the stack; `folder` is the fixture `session_folder`."""
    return folder / "data"


@contextmanager
def stack_settings(folder: Path) -> Iterator[None]:
    """A stack that starts in this block runs code, may train the networks of the tests, and does not wait long."""
    torch = folder / "torch"
    (torch / "bin").mkdir(parents=True)
    (torch / "bin" / "python").symlink_to(SYSTEM_PYTHON)
    # An empty root may be one that is not mounted: then the api does not refuse names that are not there.
    (data_root(folder) / "of another test").mkdir(parents=True)
    values = allowing() | {
        "HORA_CODE": "on",
        "HORA_DATA_ROOTS": str(data_root(folder)),
        "HORA_ENVIRONMENTS": f"torch={torch}",
        "HORA_MODELS": f"{MODEL},{STUBBORN}",
        "HORA_SECRET_OF_THE_WORKER": SECRET,
        "HORA_RESTART_BACKOFF_S": "0.1",
        "HORA_IDLE_PERIOD_S": "2",
        "HORA_QUEUE_QUANTUM_S": "5",
        "HORA_SAVE_GRACE_S": "20",
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in values.items():
            patch.setenv(name, value)
        yield


def end_all_jobs(client: Service) -> None:
    """Cancel what goes on or waits on the stack, and wait for free slots: other modules use it next."""
    for status in ("queued", "launching", "running"):
        for job in client.jobs(status=status):
            client.cancel(job["id"])
    until(lambda: {slot["state"] for host in client.hosts() for slot in host["slots"]} <= {"free"}, what="free slots")
