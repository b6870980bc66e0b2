"""The user as whom root runs the embedded PostgreSQL, when several stacks start at once on a fresh machine."""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator

import pytest

STARTS = 3  # without a lock two of them get different ids in most rounds
PRINT_ID = """
import sys
from hora.stack import postgres
postgres.SYSTEM_USER = sys.argv[1]
print("ready", flush=True)
input()
print(postgres._system_user().pw_uid)
"""


@pytest.fixture
def new_user() -> Iterator[str]:
    """The name of a user that does not exist yet."""
    if os.geteuid() != 0 or shutil.which("useradd") is None:
        pytest.skip("only root makes users, with useradd")
    name = f"horatest{os.getpid()}"
    yield name
    subprocess.run(["userdel", name], check=False, capture_output=True)


@pytest.mark.parametrize("repeat", range(3))
def test_stacks_that_start_at_once_run_as_the_same_user(new_user: str, repeat: int) -> None:
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", PRINT_ID, new_user], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(STARTS)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    ids = {process.communicate(timeout=120)[0] for process in processes}
    assert len(ids) == 1
    assert ids == {subprocess.run(["id", "-u", new_user], capture_output=True, text=True, check=True).stdout}
