"""`hora doctor`: what this machine and its stack need, checked one by one. Each check says what to do."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from hora.client import Client, HoraError
from hora.connection import connect, home_path
from hora.render import Finding, duration, is_free

PACKAGES = ("hora", "fastapi", "celery", "sqlalchemy", "psycopg", "tensorflow-cpu", "keras", "horovod")
_IMPORTS = """
import horovod.tensorflow as hvd, keras, tensorflow as tf
print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Horovod with Gloo: {hvd.gloo_built()}")
sys.exit(not hvd.gloo_built())
"""


def examine() -> Iterator[Finding]:
    """Run every check, the quick ones first."""
    home = home_path()
    yield python()
    yield versions()
    yield writable(home)
    yield disk_space(home)
    yield data_roots()
    yield from service()
    yield training()


def python() -> Finding:
    """Horovod and TensorFlow exist for two versions of Python."""
    found = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 12):
        return Finding("python", "ok", found)
    return Finding("python", "fail", found, "Install Hora into Python 3.11 or 3.12.")


def versions() -> Finding:
    """What is installed, for a report."""
    found = []
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            found.append(f"{name} {version(name)}")
    return Finding("versions", "ok", ", ".join(found))


def writable(home: Path) -> Finding:
    """The home, or the nearest folder above it, can be written."""
    probe = home / ".doctor"
    try:
        if not home.exists():
            return Finding("home", "warn", f"{home} is not there yet", "`hora up -d` makes it.")
        probe.touch()
        probe.unlink()
    except OSError as error:
        return Finding("home", "fail", f"{home}: {error.strerror}", "Set HORA_HOME to a folder of your own.")
    return Finding("home", "ok", str(home))


def disk_space(home: Path) -> Finding:
    """Checkpoints, logs and the database fill the home's disk."""
    there = next(folder for folder in (home, *home.parents) if folder.exists())
    free_gb = shutil.disk_usage(there).free / 1e9
    found = f"{free_gb:.1f} GB free at {there}"
    if free_gb < 1:
        return Finding("disk space", "fail", found, "Make room, or set HORA_HOME to another disk.")
    if free_gb < 10:
        return Finding("disk space", "warn", found, "A large job's checkpoints may not fit.")
    return Finding("disk space", "ok", found)


def data_roots() -> Finding:
    """The folders that this host's worker may read data from."""
    from jobs.settings import Settings

    try:
        roots = Settings().data_root_list
    except ValueError as error:
        return Finding("data roots", "fail", f"the settings are wrong: {error}", "Correct the HORA_* variables.")
    folders = [Path(root) for root in roots if "://" not in root]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    closed = [str(folder) for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)]
    if missing:
        advice = "Correct HORA_DATA_ROOTS, or mount them."
        return Finding("data roots", "fail", f"not there: {', '.join(missing)}", advice)
    if closed:
        return Finding("data roots", "fail", f"not readable: {', '.join(closed)}", "Let the worker's user read them.")
    return Finding("data roots", "ok", ", ".join(roots) or "HORA_DATA_ROOTS is not set: registered datasets only")


def training() -> Finding:
    """TensorFlow and Horovod can be imported, in a process of their own: neither belongs into this one."""
    try:
        tried = subprocess.run(
            [sys.executable, "-c", f"import sys{_IMPORTS}"], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding("training", "fail", "importing TensorFlow and Horovod takes over 2 min", "Check the disk.")
    if tried.returncode == 0:
        return Finding("training", "ok", tried.stdout.strip())
    last = (tried.stderr.strip() or tried.stdout.strip()).splitlines()[-1:] or ["no message"]
    return Finding("training", "fail", last[0], "On a machine that trains, install hora[worker] (`make setup`).")


def service() -> Iterator[Finding]:
    """The service, and what it says of its hosts and its clock."""
    start = "Start a stack with `hora up -d`, or set HORA_URL and HORA_TOKEN."
    try:
        with connect() as client:
            if not client.is_ready():
                yield Finding("api", "fail", f"{client.url} is not ready", "Its database does not answer; see its log.")
                return
            yield Finding("api", "ok", f"{client.url} is ready")
            yield from _guarded("hosts", lambda: hosts(client))
            yield from _guarded("clock", lambda: clock(client))
    except HoraError as error:
        yield Finding("api", "fail", str(error), start)


def hosts(client: Client) -> Finding:
    """There are hosts, alive, with slots to place a job on."""
    found = client.hosts()
    alive = [host for host in found if host.get("alive")]
    slots = [slot for host in alive for slot in host.get("slots", [])]
    told = f"{len(alive)} of {len(found)} alive, {sum(map(is_free, slots))} of {len(slots)} slots free"
    if not slots:
        return Finding("hosts", "fail", told, "No job can start: start a worker, and see its log.")
    if len(alive) < len(found):
        lost = ", ".join(str(host["name"]) for host in found if not host.get("alive"))
        return Finding("hosts", "warn", told, f"No heartbeat from: {lost}.")
    return Finding("hosts", "ok", told)


def clock(client: Client) -> Finding:
    """This clock and the service's agree: times are compared across machines."""
    before = time.time()
    there = client.clock()
    apart_s = abs(there - datetime.fromtimestamp((before + time.time()) / 2, UTC)).total_seconds()
    told = f"{duration(max(apart_s - 1, 0))} apart"  # the service tells whole seconds
    if apart_s > 6:
        return Finding("clock", "warn", told, "Let both machines follow a time server.")
    return Finding("clock", "ok", told)


def _guarded(check: str, run: Callable[[], Finding]) -> Iterator[Finding]:
    try:
        yield run()
    except HoraError as error:
        yield Finding(check, "fail", str(error), "Check HORA_TOKEN.")
