"""A stack whose whole home lies on one full disk: database, state and logs. Nothing that was answered is lost."""

import os
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import psycopg
import pytest

from hora.home import StackError
from hora.stack.control import Stack
from jobs.runtime.processes import ProcessId
from tests.full_disks import fill_up, read_only_from_now_on, small_disk, use_up_files
from tests.waiting import until

PARTS = ("database", "broker", "migrations", "api")
SPEC = {"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2, "labels": {"x": "y" * 60}}


@pytest.fixture
def stack(short_folder: Path) -> Iterator[Stack]:
    """A stack without a worker."""
    with small_disk(short_folder / "disk", size_bytes=220 * 2**20, files=20_000) as disk:
        disk.chmod(0o755)
        with Stack(disk / "home", port=0, parts=PARTS) as stack:
            yield stack


def test_a_full_disk_stops_no_part_for_good_and_loses_no_job(stack: Stack) -> None:
    headers, disk = {"Authorization": f"Bearer {stack.token}"}, stack.home.parent
    api_pid = stack.pid_of("api")
    with httpx.Client(base_url=stack.url, headers=headers, timeout=60) as api:
        with psycopg.connect(stack.database_url, autocommit=True) as database:
            fill, job_ids = fill_up(disk), []
            while (answer := api.post("/v1/jobs", json=SPEC)).status_code == 201:
                job_ids.append(answer.json()["id"])
            assert answer.status_code == 503
            assert answer.json()["detail"].startswith("the database has no space; what was answered before is stored")
            assert "datasets and database have 0.0 MB free" in api.get("/readyz").json()["space"][0]
            with pytest.raises(psycopg.OperationalError):
                grow_log(database)

        def why_not_ready() -> str:
            return str(api.get("/readyz").json().get("detail", ""))

        until(lambda: why_not_ready().startswith("the database does not answer: database has 0."), what="the end")
        fill_up(disk)  # also with what the server left
        os.kill(api_pid, signal.SIGKILL)
        until(lambda: is_well(stack, "/healthz"), what="another api, without a log")
        fill.unlink()
        until(lambda: is_well(stack, "/readyz"), what="the database")
        assert [api.get(f"/v1/jobs/{job_id}").status_code for job_id in job_ids] == [200] * len(job_ids)
        assert api.post("/v1/jobs", json=SPEC).status_code == 201
    assert "database ended with code" in stack.log_of("keeper")
    assert "(its disk has only" in stack.log_of("keeper")
    until(lambda: stack.pid_of("api") != api_pid, what="the state file with the new api")


def grow_log(database: psycopg.Connection) -> None:
    """Make the database's write-ahead log grow. On a full disk the server ends."""
    for _ in range(100):
        database.execute("SELECT pg_logical_emit_message(true, 'x', repeat('y', 1000000))")


def is_well(stack: Stack, path: str) -> bool:
    """Whether the api says so at this path."""
    with suppress(httpx.HTTPError):
        return httpx.get(f"{stack.url}{path}", timeout=10).status_code == 200
    return False


@pytest.mark.parametrize("use_up", [fill_up, use_up_files])
def test_a_stack_that_cannot_start_on_a_full_disk_says_so(short_folder: Path, use_up: Callable[[Path], Path]) -> None:
    with small_disk(short_folder / "disk", size_bytes=2**20, files=100) as disk:
        home = disk / "home"
        (home / "logs").mkdir(parents=True)
        use_up(disk)
        with pytest.raises(StackError, match=f"HORA_HOME {home} cannot be written|is there space in {home}"):
            Stack(home, port=0, parts=PARTS).start(stays=True)


@pytest.mark.parametrize("is_kept", [True, False])
def test_a_stack_on_a_disk_that_was_made_read_only_can_be_stopped(short_folder: Path, is_kept: bool) -> None:
    """By its keeper, or without one that somebody killed."""
    with small_disk(short_folder / "disk") as disk:
        stack = Stack(disk / "home", port=0, parts=("broker",))
        stack.start(stays=not is_kept)
        broker, keeper = ProcessId.of(stack.pid_of("broker")), stack.state.keeper
        assert broker is not None
        assert keeper is not None
        if not is_kept:
            keeper.signal(signal.SIGKILL)
            until(lambda: not keeper.is_alive, what="the end of the keeper")
        with read_only_from_now_on(disk):
            stopped = stack.stop()
            assert is_kept or stopped == ["broker stopped"]
            assert not broker.is_alive
            assert "Traceback" not in stack.log_of("keeper")
