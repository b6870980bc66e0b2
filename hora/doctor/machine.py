"""The checks of `hora doctor` of this machine. They need no running stack."""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Literal

from hora.doctor.findings import Finding
from hora.extras import install_command
from hora.home import Home
from jobs.runtime.closed_home import FOLDERS

PACKAGES = ("hora", "fastapi", "celery", "sqlalchemy", "psycopg", "tensorflow", "tensorflow-cpu", "keras", "horovod")
_IMPORTS = """
import horovod.tensorflow as hvd, keras, tensorflow as tf
print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Horovod with Gloo: {hvd.gloo_built()}")
sys.exit(not hvd.gloo_built())
"""
_TIGHT_BYTES = 10e9
_GPUS_S = 300.0  # a busy machine, and two questions to TensorFlow
_SCRIPTS_S = 30.0
_ATTEMPT_FOLDER = re.compile(r"/runs/([0-9a-z]+)/attempt-([0-9]+)/")


def python() -> Finding:
    """Horovod and TensorFlow exist for two versions of Python."""
    installed = ".".join(map(str, sys.version_info[:3]))
    if (3, 11) <= sys.version_info[:2] <= (3, 12):
        return Finding("python", "ok", installed)
    return Finding("python", "fail", installed, "Install Hora into Python 3.11 or 3.12.")


def versions() -> Finding:
    """The installed packages, for a bug report."""
    installed = []
    for name in PACKAGES:
        with suppress(PackageNotFoundError):
            installed.append(f"{name} {version(name)}")
    return Finding("versions", "ok", ", ".join(installed))


def client_alone() -> Finding:
    """This machine has the command line and the client, and runs no part of the service."""
    advice = f"To run a stack here: {install_command('api', 'worker', 'embedded')}"
    return Finding("machine", "ok", "it has the client alone, and runs no part of the service", advice)


def writable(home: Path) -> Finding:
    """The home, or the nearest folder above it, can be written, and other users cannot read what is in it."""
    from jobs.runtime.space import is_full

    probe = home / ".doctor"
    try:
        if not home.exists():
            return Finding("home", "warn", f"{home} does not exist yet", "`hora up -d` makes it.")
        probe.touch()
        probe.unlink()
    except OSError as error:
        advice = "Free some space." if is_full(error) else "Set HORA_HOME to a folder of your own."
        return Finding("home", "fail", f"{home}: {error.strerror}", advice)
    folders = [home / name for name in FOLDERS]
    open_to_others = [path for path in folders if path.is_dir() and stat.S_IMODE(path.stat().st_mode) & 0o077]
    if open_to_others:
        return Finding(
            "home", "warn", f"open to other users: {_paths_text(open_to_others)}", "Run `chmod go=` on them."
        )
    return Finding("home", "ok", str(home))


def disk_space(home: Path) -> Iterator[Finding]:
    """Every file system that Hora writes on this machine has space."""
    from jobs.runtime.files import size_text
    from jobs.runtime.settings import Settings
    from jobs.runtime.space import measure

    try:
        settings = Settings().model_copy(update={"home": home})
    except ValueError:
        return  # `data_roots` names the wrong setting
    for space in measure(settings):
        free = f"{size_text(space.free_bytes)} free for {', '.join(space.folders)}"
        if space.problem is not None:
            advice = "Hora gives this machine no jobs. Free some space, or set HORA_HOME to a folder on another disk."
            yield Finding("disk space", "fail", f"{free}: {space.problem}", advice)
        elif space.free_bytes < _TIGHT_BYTES and "runs" in space.folders:
            yield Finding("disk space", "warn", free, "A large job's checkpoints may not fit.")
        else:
            yield Finding("disk space", "ok", free)


def variables() -> Iterator[Finding]:
    """Variables that look like a setting, and are none."""
    from jobs.runtime.settings import misspelt_in

    for sentence in misspelt_in(os.environ):
        yield Finding("variables", "warn", sentence, "Correct the name of the variable.")


def data_roots() -> Finding:
    """The folders that this host's worker may read data from."""
    from pydantic import ValidationError

    from jobs.runtime.settings import Settings, in_sentences

    try:
        roots = Settings().data_root_list
    except ValidationError as error:
        found = f"the settings are not valid: {in_sentences(error)}"
        return Finding("data roots", "fail", found, "Correct the HORA_* variables.")
    folders = [Path(root) for root in roots if "://" not in root]
    missing = [str(folder) for folder in folders if not folder.is_dir()]
    closed = [str(folder) for folder in folders if folder.is_dir() and not os.access(folder, os.R_OK | os.X_OK)]
    if missing:
        advice = "Correct HORA_DATA_ROOTS, or mount these folders."
        return Finding("data roots", "fail", f"no such folder: {', '.join(missing)}", advice)
    if closed:
        return Finding("data roots", "fail", f"not readable: {', '.join(closed)}", "Let the worker's user read them.")
    return Finding("data roots", "ok", ", ".join(roots) or "HORA_DATA_ROOTS is not set: registered datasets only")


def training() -> Finding:
    """TensorFlow and Horovod can be imported. A process of their own does so, because this one must not."""
    try:
        import_run = subprocess.run(
            [sys.executable, "-c", f"import sys{_IMPORTS}"], capture_output=True, text=True, timeout=120, check=False
        )
    except subprocess.TimeoutExpired:
        return Finding("training", "fail", "importing TensorFlow and Horovod takes over 2 min", "Check the disk.")
    if import_run.returncode == 0:
        return Finding("training", "ok", import_run.stdout.strip())
    last = (import_run.stderr.strip() or import_run.stdout.strip()).splitlines()[-1:] or ["no message"]
    return Finding("training", "fail", last[0], "To train on this machine, install hora[worker] (`make setup`).")


_INSTALL = "Install bubblewrap (on Debian: apt-get install bubblewrap), and let it make namespaces."


def scripts() -> Iterator[Finding]:
    """What holds scripts on this machine. The trainer's own program says so."""
    from jobs.runtime.settings import Settings

    try:
        settings = Settings()
    except ValueError:
        return  # `data_roots` names the wrong setting
    if settings.code == "off" and "code" in settings.model_fields_set:  # `hora up` turns it on if nobody sets it
        yield Finding("scripts", "ok", "HORA_CODE is off here: no code of people runs")
        return
    argv = [sys.executable, "-m", "trainer.script.confinement"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_SCRIPTS_S, check=True)
        has = json.loads(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        yield Finding("scripts", "fail", "it cannot be found out what holds scripts", "Install hora[worker].")
        return
    missing = [name for name, folder in settings.environment_paths.items() if not Path(folder, "bin/python").exists()]
    if missing:
        text = f"there is no bin/python in the environments {', '.join(missing)}"
        yield Finding("environments", "fail", text, "Create them, or correct HORA_ENVIRONMENTS.")
    user = settings.script_user
    by = [f"Landlock {has['landlock']}"] if has["landlock"] else []
    by += ["a /dev/shm of its own"] if has["mounts"] else []
    by = (["bubblewrap"] if has["bubblewrap"] else by) + ([f"the user {user}"] if user else [])
    if user and not has["bubblewrap"] and (closed := _closed_above(Path(os.path.realpath(sys.executable)))):
        text = f"the user {user} cannot pass {closed}, so no script finds Python"
        yield Finding("scripts", "fail", text, "Install bubblewrap, or install Hora where every user can read it.")
    elif has["bubblewrap"]:
        yield Finding("scripts", "ok", f"each is held by {' and '.join(by)}")
    elif user:
        shares = "" if has["mounts"] else ", and shares /dev/shm with the others of its user"
        text = f"each is held by {', '.join(by)}, and not by bubblewrap: it sees the processes of others{shares}"
        yield Finding("scripts", "warn", text, _INSTALL)
    else:
        text = f"each is held by {', '.join(by)}, and reaches sockets of this user" if by else "nothing holds them"
        yield Finding("scripts", "warn", text, f"{_INSTALL} Or set HORA_CODE_USER.")


def _closed_above(path: Path) -> Path | None:
    """The first folder above a path that other users cannot pass."""
    return next((above for above in reversed(path.parents) if not above.stat().st_mode & stat.S_IXOTH), None)


def gpus() -> Finding:
    """The GPUs of this machine, and which slots its worker offers. The worker's own program says so."""
    argv = [sys.executable, "-m", "worker.host.devices"]
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_GPUS_S, check=False)
        facts = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return Finding("gpus", "fail", f"no answer within {_GPUS_S / 60:.0f} min", "Check the NVIDIA driver.")
    except (IndexError, ValueError):
        last = (done.stderr.strip() or "no message").splitlines()[-1]
        return Finding("gpus", "warn", f"not checked: {last}", "To train on this machine, install hora[worker].")
    return gpu_finding(facts)


def gpu_finding(facts: dict[str, Any]) -> Finding:
    """What `worker.host.devices` printed, as a finding."""
    slots = facts["slots"]
    offer = f"HORA_DEVICE is {facts['setting']}: {slots['gpu']} GPU slots, {slots['cpu']} CPU slots"
    if not facts["gpus"]:
        if facts["problem"]:
            return Finding("gpus", "fail", facts["problem"], "Install the driver, or set HORA_DEVICE=auto or cpu.")
        return Finding("gpus", "ok", f"{facts['no_gpus']}; {offer}" if facts["no_gpus"] else offer)
    found = "; ".join([_cards_text(facts), *_unusable_text(facts), *filter(None, [facts["problem"]]), offer])
    if facts["problem"] is None:
        return Finding("gpus", "ok", found)
    level: Literal["warn", "fail"] = "warn" if slots["gpu"] or slots["cpu"] else "fail"
    return Finding("gpus", level, found, _gpu_advice(facts))


def _cards_text(facts: dict[str, Any]) -> str:
    """2 GPUs (H200), driver 550.54.15 for CUDA 12.4, TensorFlow 2.18.1, Horovod with NCCL."""
    names, driver = sorted({gpu["name"] for gpu in facts["gpus"]}), facts["driver"] or {}
    count = len(facts["gpus"])
    parts = [
        f"{count} GPU{'s' if count > 1 else ''} ({', '.join(names)})",
        f"driver {driver.get('version') or '?'} for CUDA {driver.get('cuda') or '?'}",
        f"TensorFlow {facts['tensorflow']}" if facts["tensorflow"] else "",
        {True: "Horovod with NCCL", False: "Horovod without NCCL"}.get(facts["nccl"], ""),
    ]
    return ", ".join(filter(None, parts))


def _unusable_text(facts: dict[str, Any]) -> list[str]:
    """The cards that TensorFlow cannot use, if it can use others."""
    unusable = [gpu for gpu in facts["gpus"] if gpu["unusable"]]
    if len(unusable) == len(facts["gpus"]):
        return []
    return [f"GPU {gpu['index']} cannot be used: {gpu['unusable']}" for gpu in unusable]


def _gpu_advice(facts: dict[str, Any]) -> str:
    if "make setup" in facts["problem"]:
        return "Run `HORA_DEVICE=gpu make setup` and start the worker again, or set HORA_DEVICE=cpu."
    return "Compare the driver with what TensorFlow needs, start the worker again, or set HORA_DEVICE=cpu."


def ssh_keys() -> Iterator[Finding]:
    """The shared keys of the hosts exist, and no other user can read them, as sshd demands."""
    from jobs.runtime.ssh_keys import SshKeys

    folder = os.environ.get("HORA_SSH_DIR")
    if not folder:
        return
    keys = SshKeys(Path(folder))
    try:
        missing = keys.missing()
        private = [keys.folder, keys.client_key, keys.host_key]
        too_open = [path for path in private if path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077]
        closed = [path for path in (keys.client_key, keys.host_key) if path.exists() and not os.access(path, os.R_OK)]
    except OSError as error:
        yield Finding("ssh keys", "fail", f"{folder}: {error.strerror}", "Let the worker's user read HORA_SSH_DIR.")
        return
    if missing:
        advice = "Make them once with `hora keys`, and give every host the same keys."
        yield Finding("ssh keys", "fail", f"not in {folder}: {', '.join(missing)}", advice)
    elif closed:
        yield Finding("ssh keys", "fail", f"not readable: {_paths_text(closed)}", "Let the worker's user read them.")
    elif too_open:
        yield Finding("ssh keys", "fail", f"open to other users: {_paths_text(too_open)}", "Run `chmod go=` on them.")
    else:
        yield Finding("ssh keys", "ok", folder)


def parts(home: Path) -> Iterator[Finding]:
    """The processes of the stack on this machine, when its api does not answer."""
    state = Home.at(home).read_state()
    if state.failure:
        yield Finding("stack", "fail", state.failure, f"Read the logs in {home / 'logs'}.")
    for name, process in state.parts.items():
        if not process.is_alive and name != "migrations":
            advice = f"Read {home / 'logs' / name}.log. `hora up -d` starts it again."
            yield Finding("stack", "fail", f"{name} does not run", advice)


def leftovers(home: Path, is_live: Callable[[str, int], bool]) -> Finding:
    """No process of an ended attempt is left. `is_live` asks the service whether an attempt of a job is live."""
    from hora.stack.processes import attempts_of

    pids: dict[str, list[int]] = {}
    for process, own_mark in attempts_of(home.resolve()).items():
        if mark := own_mark or _supervised(process.pid):
            pids.setdefault(mark, []).append(process.pid)
    orphans = {}
    for mark, attempt_pids in pids.items():
        job_id, _, number = mark.rpartition(".")
        if not (number.isdecimal() and is_live(job_id, int(number))):
            orphans[mark] = attempt_pids
    if not orphans:
        return Finding("processes", "ok", f"{len(pids)} attempts run here, and no process of an ended attempt")
    named = "; ".join(f"of {mark}: {', '.join(map(str, sorted(rest)))}" for mark, rest in sorted(orphans.items()))
    advice = "The worker kills them within a minute. If it cannot, it quarantines their slots. Read its log."
    return Finding("processes", "warn", f"left over from ended attempts: {named}", advice)


def _supervised(pid: int) -> str:
    """The mark of a supervisor's attempt, from the name of its log file; "" if it has none."""
    with suppress(OSError):
        if folder := _ATTEMPT_FOLDER.search(os.readlink(f"/proc/{pid}/fd/2")):
            return f"{folder[1]}.{folder[2]}"
    return ""


def _paths_text(paths: list[Path]) -> str:
    return ", ".join(map(str, paths))
