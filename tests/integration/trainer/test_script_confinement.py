"""Hostile scripts, held by each of the means that a host may have. `tests/acceptance` tries more of them in a stack."""

import ctypes
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from jobs.runtime.shared_memory import SHARED_MEMORY, new_folder
from tests.integration.trainer.held import PYTHON
from tests.waiting import slowdown
from trainer.script.confinement import protections
from trainer.script.view import devices

FORKS = """
import contextlib, os
while True:
    with contextlib.suppress(OSError):
        os.fork()
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
import contextlib, ctypes, os, signal, subprocess, sys
reached = []
def tries(name, function, *args):
    with contextlib.suppress(OSError):
        function(*args)
        reached.append(name)
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
if ctypes.CDLL(None).mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
    reached.append("mount")
for program in (["su", "-c", "id -u"], ["sudo", "-n", "id", "-u"]):
    with contextlib.suppress(OSError, subprocess.TimeoutExpired):
        said = subprocess.run(program, capture_output=True, stdin=subprocess.DEVNULL, timeout=20).stdout
        reached += [program[0]] if said.strip() == b"0" else []
sys.exit(" ".join(reached) or 0)
"""
WORKS = """
import multiprocessing, os, socket, ssl, tempfile
from multiprocessing.shared_memory import SharedMemory
with multiprocessing.Pool(2) as pool:
    assert pool.map(abs, [-1, -2]) == [1, 2]
memory = SharedMemory(create=True, size=1000)
assert SharedMemory(memory.name).size >= 1000
memory.unlink()
with tempfile.NamedTemporaryFile() as file:
    file.write(b"x")
open("made-here", "w").write("x")
socket.getaddrinfo("localhost", 80)
ssl.create_default_context()
assert os.read(os.open("/dev/urandom", os.O_RDONLY), 4)
"""
MAPS = """
import ctypes, os, time
map_file = ctypes.CDLL(None).mmap
map_file.restype = ctypes.c_void_p
map_file.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
"""
HIDES_MEMORY = f"""{MAPS}
while True:
    file = os.memfd_create("hidden")
    os.write(file, bytes(20_000_000))
    assert map_file(None, 20_000_000, 1, 1, file, 0) not in (None, 2**64 - 1)
    os.close(file)
    time.sleep(0.02)
"""
HIDES_ON_DISK = f"""{MAPS}
while True:
    file = os.open("hidden", os.O_RDWR | os.O_CREAT)
    os.unlink("hidden")
    os.write(file, os.urandom(1_000_000) * 8)
    assert map_file(None, 8_000_000, 1, 1, file, 0) not in (None, 2**64 - 1)
    os.close(file)
    time.sleep(0.02)
"""
MAKES_FILES = """
import os, itertools
for number in itertools.count():
    os.close(os.open(f"empty-{number}", os.O_CREAT | os.O_WRONLY))
"""
STARTS_THREADS = """
import threading, time
while True:
    try:
        threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
    except RuntimeError:
        time.sleep(0.1)
"""
KEEPS_WHAT_NOBODY_COUNTS = """
import ctypes, os, platform, sys
libc = ctypes.CDLL(None, use_errno=True)
reached = []
if libc.shmget(0, 1_000_000, 0o1600) >= 0:
    reached.append("shared memory of System V")
if libc.msgget(0, 0o1600) >= 0:
    reached.append("messages of System V")
if libc.unshare(0x10000000) == 0:
    reached.append("a namespace of users")
numbers = {"x86_64": (248, 56), "aarch64": (217, 220)}[platform.machine()]
if libc.syscall(numbers[0], b"user", b"kept", b"secret", 6, -4) >= 0:
    reached.append("the keyring of its user")
child = libc.syscall(numbers[1], 0x10000011, 0, 0, 0, 0)
if child == 0:
    os._exit(0)
if child > 0:
    reached.append("a child in a namespace of users")
sys.exit(", ".join(reached) or 0)
"""
# Names in /dev/shm are those of others where scripts share it. Its own are made as the C library makes them.
FILLS_SHARED_MEMORY = """
import os
number = 0
while True:
    number += 1
    with open(f"/dev/shm/left-{os.getpid()}-{number}", "wb") as file:
        file.write(bytes(5_000_000))
"""
PLANTS_IN_SHARED_MEMORY = """
import os, sys
reached = []
for name, attempt in (
    ("folder of others", lambda: open("/dev/shm/hora-of-another/secret").read()),
    ("file of others", lambda: open("/dev/shm/hora-file-of-another").read()),
):
    try:
        attempt()
        reached.append(name)
    except OSError:
        pass
for plant in (lambda: os.symlink("/", "/dev/shm/hora-planted"), lambda: os.mkdir("/dev/shm/hora-planted-folder")):
    try:
        plant()
    except OSError:
        pass
sys.exit(" ".join(reached) or 0)
"""
CHANGES_MODES = """
import os, sys
reached = []
for path in (sys.argv[1] + "/secret", "/bin/sh", "/etc/shadow"):
    for change in (lambda: os.chmod(path, 0o4777), lambda: os.utime(path, (0, 0))):
        try:
            change()
            reached.append(path)
        except OSError:
            pass
sys.exit(" ".join(reached) or 0)
"""
# A module for glibc's iconv. Programs load it if GCONV_PATH and a locale of its character set are in the environment.
CONVERTER = """
#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>
__attribute__((constructor)) static void loaded(void) {
    int has_rights = getuid() == 0 || prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0;
    close(open(has_rights ? "loaded-with-rights" : "loaded", O_CREAT | O_WRONLY, 0600));
}
int gconv_init(void *step) { return 1; }
int gconv(void) { return 1; }
"""
# Found without the product: where it finds nothing by mistake, its scripts are not held, and the tests must not skip.
ENTERED = subprocess.run(["sh", "-c", "bwrap --unshare-pid --ro-bind / / --proc /proc --dev /dev true"], check=False)
MOUNTED = subprocess.run(
    ["unshare", *(["-r"] if os.geteuid() else []), "-m", "mount", "--bind", "/tmp", "/tmp"], check=False
)
HAS = {
    "bubblewrap": ENTERED.returncode == 0,
    "landlock": ctypes.CDLL(None).syscall(444, None, 0, 1) > 0,
    "mounts": MOUNTED.returncode == 0,  # and Landlock
}
MEANS = [pytest.param(one, marks=pytest.mark.skipif(not HAS[one], reason=f"no {one} here")) for one in HAS]

pytestmark = [
    pytest.mark.skipif(not Path(PYTHON).exists(), reason=f"there is no {PYTHON}"),
    pytest.mark.skipif(not IS_REACHED, reason="other users cannot reach these sources"),
]


def test_what_this_host_has_to_hold_scripts_is_found() -> None:
    has = protections()
    assert {"bubblewrap": has.bubblewrap, "landlock": has.landlock > 0, "mounts": has.mounts} == HAS


def held(means: str, folder: Path, script: str, *variables: str, shared_memory: Path | None = None) -> dict[str, Any]:
    """How a script ended that was held by these means."""
    (folder / "code").mkdir(exist_ok=True)
    (folder / "other").mkdir(mode=0o700)
    (folder / "code" / "script.py").write_text(script)
    (folder / "secret").write_text("secret")
    (folder / "secret").chmod(0o600)
    argv = [sys.executable, "-m", "tests.integration.trainer.held", means, str(folder), PYTHON, *variables]
    own = os.environ | {"SHARED_MEMORY": str(shared_memory or new_folder())}
    ran = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60 * slowdown(), env=own)
    end: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1]) | {"log": ran.stderr}
    return end


@pytest.fixture
def folder(short_folder: Path) -> Path:
    """A folder that another user passes. Each run of pytest on the machine closes those that pytest makes."""
    short_folder.chmod(0o711)
    return short_folder


@pytest.mark.parametrize("means", MEANS)
def test_a_usual_script_works(means: str, folder: Path) -> None:
    end = held(means, folder, WORKS)
    assert (end["code"], end["excess"], end["left"]) == (0, None, []), end["log"]
    assert (folder / "code" / "made-here").exists()


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(
    "script", [REACHES_OUT, KEEPS_WHAT_NOBODY_COUNTS, CHANGES_MODES], ids=["reaches-out", "kept", "modes"]
)
def test_a_script_reaches_nothing_but_its_own(means: str, script: str, folder: Path) -> None:
    end = held(means, folder, script)
    assert (end["code"], end["log"].strip()) == (0, ""), end


@pytest.mark.parametrize("means", MEANS)
@pytest.mark.parametrize(
    ("script", "reason", "says"),
    [
        (FORKS, "script_failed", "processes"),
        (HIDES_MEMORY, "out_of_memory", "memory"),
        (FILLS_SHARED_MEMORY, "out_of_memory", "memory"),
        (HIDES_ON_DISK, "script_failed", "written"),
        (MAKES_FILES, "script_failed", "files and folders"),
        (STARTS_THREADS, "script_failed", "threads"),
    ],
    ids=["forks", "mapped-memory", "shared-memory", "mapped-files", "empty-files", "threads"],
)
def test_a_script_that_takes_too_much_is_ended(means: str, script: str, reason: str, says: str, folder: Path) -> None:
    end = held(means, folder, script)
    assert end["excess"] is not None, end
    assert end["excess"][0] == reason
    assert says in end["excess"][1]
    assert end["left"] == []
    assert not list(Path(SHARED_MEMORY).glob("left-*"))


@pytest.mark.parametrize("means", MEANS)
def test_a_script_plants_nothing_in_the_shared_memory_of_others(means: str, folder: Path) -> None:
    own = Path(SHARED_MEMORY)
    others, file = own / "hora-of-another", own / "hora-file-of-another"
    others.mkdir(mode=0o700, exist_ok=True)
    (others / "secret").write_text("secret")
    file.write_text("secret")
    file.chmod(0o600)
    try:
        end = held(means, folder, PLANTS_IN_SHARED_MEMORY)
        assert (end["code"], end["log"].strip()) == (0, ""), end
        assert not [name for name in os.listdir(own) if name.startswith("hora-planted")]
    finally:
        shutil.rmtree(others)
        file.unlink()


@pytest.mark.parametrize("plant", ["link", "folder of another user"])
@pytest.mark.skipif(not HAS["mounts"], reason="no script has a folder in memory here")
def test_a_folder_in_memory_that_somebody_else_made_is_refused(plant: str, folder: Path) -> None:
    made = Path(SHARED_MEMORY, f"hora-{folder.name}")
    if plant == "link":
        made.symlink_to("/")
    elif os.geteuid() == 0:
        made.mkdir(mode=0o777)
        os.chown(made, 1, 1)
    else:
        pytest.skip("only root makes a folder of another user")
    said = held("mounts", folder, "", shared_memory=made)["said"]
    assert said.startswith(
        f"{made} " + ("is no folder that Hora made" if plant == "link" else "belongs to another user")
    )


@pytest.mark.parametrize("means", MEANS)
def test_variables_of_a_script_load_nothing_before_its_rights_are_dropped(means: str, folder: Path) -> None:
    code = folder / "code"
    (code / "loc" / "evil").mkdir(parents=True)
    locale = Path("/usr/lib/locale/C.utf8/LC_CTYPE").read_bytes()
    assert b"UTF-8\0" in locale
    (code / "loc" / "evil" / "LC_CTYPE").write_bytes(locale.replace(b"UTF-8\0", b"EVILX\0"))
    (code / "gconv-modules").write_text("module EVILX// INTERNAL EVILX 1\nmodule INTERNAL EVILX// EVILX 1\n")
    source = folder / "evil.c"
    source.write_text(CONVERTER)
    subprocess.run(["g++", "-x", "c", "-shared", "-fPIC", "-o", str(code / "EVILX.so"), str(source)], check=True)
    held(means, folder, "", "LC_CTYPE=evil", "LOCPATH=loc", "GCONV_PATH=.")
    assert (code / "loaded").exists()
    assert not (code / "loaded-with-rights").exists()


@pytest.mark.parametrize("means", MEANS)
def test_a_daemon_ends_with_its_script(means: str, folder: Path) -> None:
    end = held(means, folder, DAEMON)
    assert (end["code"], end["left"]) == (0, [])


def test_a_program_that_does_not_exist_is_named(folder: Path) -> None:
    (folder / "code").mkdir()
    argv = [sys.executable, "-m", "tests.integration.trainer.held", "bubblewrap", str(folder), "no-such-program"]
    own = os.environ | {"SHARED_MEMORY": new_folder()}
    said = json.loads(subprocess.check_output(argv, timeout=60 * slowdown(), env=own))
    assert said == {"said": "'no-such-program' cannot be started: No such file or directory"}


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
