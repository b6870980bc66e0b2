"""Hostile scripts, held by each of the means that a host may have. `tests/acceptance` tries more of them in a stack."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.trainer.held import PYTHON
from tests.waiting import slowdown
from trainer.script.confinement import protections
from trainer.script.view import devices

FORKS = """
import os
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
ROOT = Path(__file__).parents[3]
IS_REACHED = all(above.stat().st_mode & 0o001 for above in (ROOT, *ROOT.parents))
DAEMON = """
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.execve("/usr/bin/python3", ["python3", "-c", "import time; time.sleep(600)"], {})
    os._exit(0)
"""
REACHES_OUT = """
import os, signal, sys
reached = []
def tries(name, function, *args):
    try:
        function(*args)
        reached.append(name)
    except OSError:
        pass
folder, above = sys.argv[1], os.getppid()
tries("secret", open, folder + "/secret")
tries("list", os.listdir, folder + "/other")
tries("environment", lambda: open(f"/proc/{os.getppid()}/environ").read(1) if above > 1 else open("/nowhere"))
for name in os.listdir("/proc"):
    if name.isdigit() and int(name) > 2 and int(name) not in (os.getpid(), os.getppid()):
        tries("signal", os.kill, int(name), signal.SIGCONT)
for path in ("/etc/shadow", "/root/.ssh", "/var/log"):
    tries(path, os.listdir if os.path.isdir(path) else open, path)
for path in ("/usr/x", "/etc/x", "/x", folder + "/x", "/proc/sys/kernel/core_pattern"):
    tries("write " + path, open, path, "w")
tries("root", os.setuid, 0)
tries("chroot", os.chroot, "/")
sys.exit(" ".join(reached) or 0)
"""
WORKS = """
import multiprocessing, os, socket, ssl, tempfile
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
open("made-here", "w").write("x")
socket.getaddrinfo("localhost", 80)
ssl.create_default_context()
assert os.read(os.open("/dev/urandom", os.O_RDONLY), 4)
"""
MEANS = [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(not protections().bubblewrap, reason="bubblewrap cannot run")),
    pytest.param("landlock", marks=pytest.mark.skipif(not protections().landlock, reason="the kernel has no Landlock")),
]


pytestmark = [
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"there is no {PYTHON}"),
    pytest.mark.skipif(not IS_REACHED, reason="other users cannot reach these sources"),
]


def held(means: str, folder: Path, script: str) -> dict[str, Any]:
    """How a script ended that was held by these means."""
    (folder / "code").mkdir()
    (folder / "other").mkdir(mode=0o700)
    (folder / "code" / "script.py").write_text(script)
    (folder / "secret").write_text("secret")
    (folder / "secret").chmod(0o600)
    argv = [sys.executable, "-m", "tests.integration.trainer.held", means, str(folder), PYTHON]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60 * slowdown())
    end: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1]) | {"log": ran.stderr}
    return end


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for above in (tmp_path, *tmp_path.parents):  # another user passes, as through the folders of a worker
        if above.owner() == Path.home().owner() and above != Path("/"):
            above.chmod(above.stat().st_mode | 0o011)
    return tmp_path


@pytest.mark.parametrize("means", MEANS)
def test_a_usual_script_works(means: str, folder: Path) -> None:
    end = held(means, folder, WORKS)
    assert (end["code"], end["excess"], end["left"]) == (0, None, []), end["log"]
    assert (folder / "code" / "made-here").exists()


@pytest.mark.parametrize("means", MEANS)
def test_a_script_reaches_nothing_but_its_own(means: str, folder: Path) -> None:
    end = held(means, folder, REACHES_OUT)
    assert (end["code"], end["log"].strip()) == (0, ""), end


@pytest.mark.parametrize("means", MEANS)
def test_a_fork_bomb_is_ended(means: str, folder: Path) -> None:
    end = held(means, folder, FORKS)
    assert end["excess"][0] == "script_failed"
    assert "processes" in end["excess"][1]
    assert end["left"] == []


@pytest.mark.parametrize("means", MEANS)
def test_a_daemon_ends_with_its_script(means: str, folder: Path) -> None:
    end = held(means, folder, DAEMON)
    assert (end["code"], end["left"]) == (0, [])


def test_a_program_that_does_not_exist_is_named(folder: Path) -> None:
    (folder / "code").mkdir()
    argv = [sys.executable, "-m", "tests.integration.trainer.held", "bubblewrap", str(folder), "no-such-program"]
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60 * slowdown())
    assert json.loads(ran.stdout) == {"said": "'no-such-program' cannot be started: No such file or directory"}


def test_only_the_gpus_of_the_attempt_are_seen(tmp_path: Path) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm", "nvidia-caps", "sda", "kvm"):
        (tmp_path / name).touch()
    known = tmp_path / "driver"
    for number in (0, 1):
        (known / f"0000:0{number}:00.0").mkdir(parents=True)
        text = f"Model: \t\t Big\nGPU UUID: \t GPU-{number}\nDevice Minor: \t {number}\nGPU Excluded:\t No\n"
        (known / f"0000:0{number}:00.0" / "information").write_text(text)
    shared = ["nvidia-caps", "nvidia-uvm", "nvidiactl"]
    assert devices([], tmp_path, known) == []
    assert devices(["GPU-1"], tmp_path, known) == [str(tmp_path / name) for name in sorted(["nvidia1", *shared])]
    assert len(devices(["GPU-unknown"], tmp_path, known)) == len(["nvidia0", "nvidia1", *shared])
