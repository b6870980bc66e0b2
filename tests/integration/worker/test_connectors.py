"""Ranks of a host that does not lead their attempt: forked from its template for what ssh has started there.

With real ssh and sshd on loopback, a real template, and a small program in the place of the trainer.
"""

import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from jobs.runtime.processes import MARK, ProcessId, command_line, pids, state_and_parent
from jobs.runtime.settings import Settings
from tests.integration.worker.conftest import pid_in
from tests.integration.worker.ssh_site import serving_ssh, settings_with_keys
from tests.processes import as_the_kernel_sees_it, knows
from tests.waiting import until
from trainer.script import drop_rights
from worker.attempt.processes import pids_with_mark, signal_marked, sweep
from worker.host.inherited import rank_environment
from worker.host.ssh import command, files_of
from worker.nursery import connector
from worker.nursery.keeper import Nursery
from worker.nursery.orders import write_order
from worker.nursery.parent import socket_of
from worker.sampling.rank_processes import RankProcesses

ROOT = Path(__file__).parents[3]
Start = Callable[..., "subprocess.Popen[bytes]"]

TRAINER = """
import os, sys

def _import_runner(name):
    pass

def main(folder):
    exec(open(os.path.join(folder, "program")).read(), {"__name__": "program"})

if __name__ == "__main__":
    main(sys.argv[1])
"""
SAY_PID = "import os, signal\nos.umask(0o077)\nopen('pid', 'w').write(str(os.getpid()))\n"
LASTS = f"{SAY_PID}while True: signal.pause()\n"
SAVES = f"import signal, sys\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(3))\n{LASTS}"
WARM, COLD = "warm", "cold"
SECRET = secrets.token_hex(16)


@pytest.fixture(scope="module")
def modules(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder from which the ranks and the template import first; it has the trainer."""
    folder = tmp_path_factory.mktemp("modules")
    (folder / "trainer").mkdir()
    (folder / "trainer" / "__init__.py").touch()
    (folder / "trainer" / "__main__.py").write_text(TRAINER)
    (folder / "sitecustomize.py").touch()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
        patch.chdir(folder)  # Python imports from there before all else
        yield folder


@pytest.fixture(scope="module")
def settings(session_folder: Path, modules: Path) -> Settings:
    home = session_folder / "connectors"
    return settings_with_keys(home, home / "keys", "hb")


@contextmanager
def handled_signals() -> Iterator[None]:
    """Handle the signals that a worker handles. A shell may have started the tests with some of them ignored."""
    numbers = (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in numbers]
    yield
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


@pytest.fixture(scope="module", autouse=True)
def _ssh_server(settings: Settings) -> Iterator[None]:
    with handled_signals(), serving_ssh(settings):
        yield


@pytest.fixture
def nursery(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nursery]:
    """A nursery of its own, with a template. Its worker has a secret in its environment."""
    monkeypatch.setenv("HORA_SECRET_OF_THE_WORKER", SECRET)
    nursery = Nursery(settings, threads=1)
    nursery.start()
    until(lambda: nursery.memory_bytes, what="a template")
    yield nursery
    nursery.close()


@pytest.fixture
def start(settings: Settings, tmp_path: Path, mark: str) -> Iterator[Start]:
    """Starts a rank over ssh, as the launcher of another host does. It runs this program in the folder of the test."""
    open_processes = ExitStack()

    def start(program: str, **variables: str) -> "subprocess.Popen[bytes]":
        (tmp_path / "program").write_text(program)
        (tmp_path / "pid").unlink(missing_ok=True)
        of_rank = environment_of_rank(settings, mark, tmp_path) | variables
        before = ["env", f"PYTHONPATH={os.environ['PYTHONPATH']}", sys.executable, "-m", connector.__name__]
        rank = [*(f"{name}={value}" for name, value in of_rank.items()), sys.executable, "-m", "trainer", str(tmp_path)]
        line = shlex.join([*before, str(socket_of(settings.home, settings.host)), "env", *rank])
        argv = [*command(files_of(settings)), "127.0.0.1", f"cd {tmp_path} > /dev/null 2>&1 ; {line}"]
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        return open_processes.enter_context(process)

    with open_processes:
        yield start
        sweep(mark)


def environment_of_rank(settings: Settings, mark: str, folder: Path) -> dict[str, str]:
    """What Horovod sends to the host of a rank."""
    of_rank = rank_environment(
        os.environ, mark=mark, home=settings.home, scratch=folder, threads=1,
        variables={"HOROVOD_RANK": "1", "NCCL_SOCKET_IFNAME": "lo"},
    )  # fmt: skip
    del of_rank["CUDA_VISIBLE_DEVICES"]
    if not {"LANG", "LC_ALL"} & os.environ.keys():
        of_rank["LC_CTYPE"] = "C.UTF-8"  # that of a launcher without a locale
    return of_rank


def how_it_started(rank: int) -> str:
    return WARM if b"worker.nursery.parent" in command_line(state_and_parent(rank)[1]) else COLD


def connectors_of(mark: str) -> list[int]:
    """The connectors of an attempt, which do not carry its mark."""
    words = {connector.__name__.encode(), f"{MARK}={mark}".encode(), b"env"}
    return [pid for pid in pids() if words <= set(command_line(pid))]


def template_of(nursery: Nursery) -> int:
    assert nursery._template is not None
    return nursery._template.process.pid


def test_a_warm_rank_is_as_a_cold_one(nursery: Nursery, start: Start, tmp_path: Path, mark: str) -> None:
    seen = []
    for how in (WARM, COLD):
        ssh = start(LASTS)
        rank = pid_in(tmp_path / "pid")
        assert how_it_started(rank) == how
        seen.append(as_the_kernel_sees_it(rank, mark))
        if how == WARM:
            parent = state_and_parent(rank)[1]
            assert (os.getsid(rank), os.getsid(parent)) == (rank, parent)
            assert set(pids_with_mark(mark)) == {rank, parent}
            reading = RankProcesses().read([(mark, 1)])[mark, 1]  # other tests have ranks at this time too
            of_rank = psutil.Process(rank).memory_info().rss
            assert reading.memory_bytes < 1.5 * of_rank, "the sampler takes the parent for the rank"
        assert sweep(mark)
        assert ssh.wait(240) != 0
        nursery.close()
    for one in seen:  # the ports of two connections differ
        one["environment"] = [item for item in one["environment"] if not item.startswith(("SSH_", "_="))]
    warm, cold = seen
    assert {name: (warm[name], cold[name]) for name in warm if warm[name] != cold[name]} == {}


@pytest.mark.usefixtures("nursery")
def test_what_a_warm_rank_writes_and_its_exit_code_arrive(start: Start) -> None:
    for program, code in (
        ("import sys\nprint('out')\nprint('err', file=sys.stderr)\nsys.exit(7)\n", 7),
        ("print('out')\nraise RuntimeError('err')\n", 1),
        ("print('out', flush=True)\nimport os, sys\nos.write(2, b'err')\nos.kill(os.getpid(), 9)\n", 137),
    ):
        ssh = start(program)
        out, err = ssh.communicate(timeout=240)
        assert (out, ssh.returncode) == (b"out\n", code)
        assert b"err" in err


def test_a_rank_outlives_the_template_and_the_worker_and_saves_at_a_signal_for_the_attempt(
    nursery: Nursery, start: Start, tmp_path: Path, mark: str
) -> None:
    ssh = start(SAVES)
    rank = pid_in(tmp_path / "pid")
    with suppress(PermissionError):  # this user may not read the memory of other processes
        assert not [pid for pid in (template_of(nursery), state_and_parent(rank)[1], rank) if knows(pid, SECRET)]
    os.kill(template_of(nursery), signal.SIGKILL)
    nursery.close()
    assert how_it_started(rank) == WARM
    assert signal_marked(mark, signal.SIGTERM) == 2
    assert ssh.wait(240) == 3
    until(lambda: not pids_with_mark(mark), what="the end of the rank's parent")
    assert not connectors_of(mark)


@pytest.mark.usefixtures("nursery")
def test_a_rank_whose_connector_or_parent_dies_is_told_to_end(start: Start, tmp_path: Path, mark: str) -> None:
    for dies in ("connector", "parent"):
        ssh = start(SAVES)
        rank = pid_in(tmp_path / "pid")
        (pid,) = connectors_of(mark) if dies == "connector" else [state_and_parent(rank)[1]]
        os.kill(pid, signal.SIGKILL)
        assert ssh.wait(240) != 0
        until(lambda: not pids_with_mark(mark), what="the end of the rank and its parent")


@pytest.mark.parametrize("how", [WARM, COLD])
def test_a_cut_connection_ends_no_rank(nursery: Nursery, start: Start, tmp_path: Path, mark: str, how: str) -> None:
    if how == COLD:
        nursery.close()
    ssh = start(SAVES)
    rank = pid_in(tmp_path / "pid")
    assert how_it_started(rank) == how
    started = rank if how == COLD else connectors_of(mark)[0]
    servers = [one.pid for one in psutil.Process(started).parents() if "sshd" in one.cmdline()[0]]
    assert servers
    ssh.kill()
    until(lambda: not any(map(ProcessId.of, servers)), what="the end of the server's connection")
    assert ProcessId.of(rank) is not None
    assert signal_marked(mark, signal.SIGTERM) > 0  # as the member does, which lost its lead
    until(lambda: not pids_with_mark(mark), what="the end of the rank")


def test_ranks_start_cold_with_other_variables_at_their_imports(
    nursery: Nursery, start: Start, tmp_path: Path, mark: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variables in ({"OMP_NUM_THREADS": "3"}, {"NCCL_DEBUG": "INFO"}, {"HOROVOD_CYCLE_TIME": "5"}):
        start(LASTS, **variables)
        assert how_it_started(pid_in(tmp_path / "pid")) == COLD, variables
        assert sweep(mark)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    start(LASTS)
    assert how_it_started(pid_in(tmp_path / "pid")) == COLD
    assert nursery.memory_bytes, "its template refused, and is there"


def test_a_template_that_hangs_gives_no_rank(nursery: Nursery, start: Start, tmp_path: Path, mark: str) -> None:
    template = template_of(nursery)
    os.kill(template, signal.SIGSTOP)
    start(LASTS)
    rank = pid_in(tmp_path / "pid")
    assert how_it_started(rank) == COLD
    os.kill(template, signal.SIGCONT)
    start(SAVES)
    another = pid_in(tmp_path / "pid")
    assert how_it_started(another) == WARM
    assert {one for one in pids_with_mark(mark) if b"trainer" in command_line(one)} == {rank, another}


def test_a_socket_is_left_out_where_its_path_is_too_long(settings: Settings, capfd: pytest.CaptureFixture[str]) -> None:
    nursery = Nursery(settings.model_copy(update={"home": settings.home / ("x" * 100)}), threads=1)
    nursery.start()
    until(lambda: nursery.memory_bytes, what="a template")
    nursery.close()
    assert "start cold" in capfd.readouterr().err


@pytest.mark.usefixtures("nursery")
def test_who_cannot_read_the_folder_of_the_socket_gets_no_rank(settings: Settings, tmp_path: Path, mark: str) -> None:
    (tmp_path / "program").write_text("import sys\nsys.exit(4)\n")
    path = socket_of(settings.home, settings.host)
    order = {
        "argv": [sys.executable, "-m", "trainer", str(tmp_path)], "folder": str(tmp_path), "groups": os.getgroups(),
        "environment": environment_of_rank(settings, mark, tmp_path),
    }  # fmt: skip
    for folder, flags, code in (
        (path.parent, os.O_RDONLY, b"4"), (Path("/"), os.O_RDONLY, b""), (path.parent, os.O_PATH, b""),
    ):  # fmt: skip
        with socket.socket(socket.AF_UNIX) as connection, open(os.devnull, "r+b") as null:
            connection.connect(str(path))
            assert connection.recv(16) == connector.READY
            proof = os.open(folder, flags)
            write_order(connection, order, files=[null.fileno(), null.fileno(), null.fileno(), proof])
            os.close(proof)
            assert connection.recv(16) == code


@pytest.mark.usefixtures("nursery")
def test_landlock_lets_scripts_connect_but_not_read_the_folder(settings: Settings) -> None:
    if not drop_rights.landlock_version():
        pytest.skip("this kernel has no Landlock")
    path = socket_of(settings.home, settings.host)
    program = f"""
import os, socket
from trainer.script import drop_rights
drop_rights._libc.prctl(38, 1, 0, 0, 0)  # PR_SET_NO_NEW_PRIVS
drop_rights._restrict(["/usr"], [], [])
socket.socket(socket.AF_UNIX).connect({str(path)!r})
os.open({str(path.parent)!r}, os.O_PATH)
try:
    os.open({str(path.parent)!r}, os.O_RDONLY)
except PermissionError:
    print("refused")
"""
    argv, stderr = [sys.executable, "-c", program], subprocess.STDOUT
    assert subprocess.check_output(argv, env={"PYTHONPATH": str(ROOT)}, cwd=ROOT, stderr=stderr) == b"refused\n"
