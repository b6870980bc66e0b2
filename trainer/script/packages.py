"""Installs the packages that a script asks for, once for all jobs of a host. Called by the rank before its script.

An installed set is a virtual environment in a folder named by a hash of what is in it. `uv` resolves and installs it,
from wheels alone: nothing that a package brings runs here, only later in the confined script. On top of an environment
means: a `.pth` file adds its packages, their versions are constraints, and they are not installed again.

The first rank that needs a set installs it; the others of the host wait. Each holds a shared lock while its script
runs, so that nobody removes the set meanwhile (`worker.old_packages`). Standard library only.

    CannotInstall    the packages cannot be installed; the text says why
"""

import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.files import bytes_below, open_regular

COMPLETE = ".complete"  # a file in the folder of a set that is installed; its time is that of the last use
_LOOK_EVERY_S = 1.0
_MOST_FILE_BYTES = 64 * 1024
_TAIL_BYTES = 4096
_DRAWN = " \u2570\u2500\u25b6\xd7\u2502\u251c"  # the lines and signs with which uv draws a tree of causes
_PUBLIC_UMASK = 0o022  # scripts may run as another user


class CannotInstall(Exception):
    """The packages cannot be installed; the text is one sentence for the person who named them."""


def requirements_in(file: Path) -> list[str]:
    """The packages that a requirements file names, one on a line. Raises `CannotInstall` for anything else in it."""
    from jobs.model.script_fields import is_requirement  # takes long to import

    try:
        with open(open_regular(file, follow=False), "rb") as opened:
            text = opened.read(_MOST_FILE_BYTES + 1)
    except OSError as error:
        raise CannotInstall(f"{file.name} cannot be read: {error.strerror or error}") from None
    if len(text) > _MOST_FILE_BYTES:
        raise CannotInstall(f"{file.name} has more than {_MOST_FILE_BYTES // 1024} KiB")
    requirements = []
    for number, line in enumerate(text.decode("utf-8", "replace").splitlines(), 1):
        requirement = line.partition("#")[0].strip()
        if requirement and not is_requirement(requirement):
            raise CannotInstall(
                f"line {number} of {file.name} is no name of a package with versions, such as einops>=0.8:"
                f" {requirement!r:.100}; options, URLs and paths are not allowed"
            )
        requirements += [requirement] if requirement else []
    return requirements


@dataclass(frozen=True)
class Packages:
    """What to install, and where. `base` is the Python of the environment on top of which they come."""

    requirements: Sequence[str]
    base: Path
    alone: bool  # nothing of the base but its Python
    folder: Path  # of all sets of this host
    timeout_s: float
    most_bytes: int


@dataclass(frozen=True)
class InstalledSet:
    """An installed set. It stays as long as this object holds its lock."""

    bin_dir: Path
    lock: int


def install(packages: Packages) -> InstalledSet:
    """Install the set unless it is there, and lock it. Prints what happens. Raises `CannotInstall`."""
    uv = _uv()
    give_up_at = time.monotonic() + packages.timeout_s
    packages.folder.mkdir(mode=0o711, parents=True, exist_ok=True)  # whoever knows the name of a set may read it
    packages.folder.chmod(0o711)
    installer = _Installer(packages, uv, give_up_at)
    in_base = [] if packages.alone else installer.packages_of_base()
    key = _key_of(packages, in_base)
    place = packages.folder / key
    lock = _opened(packages.folder / f"{key}.lock")
    try:
        fcntl.flock(lock, fcntl.LOCK_SH)  # nobody removes the set from now on
        if not (place / COMPLETE).exists():
            _fill_in_turn(installer, place, in_base)
        os.utime(place / COMPLETE)
    except BaseException:
        os.close(lock)
        raise
    return InstalledSet(place / "bin", lock)


def _fill_in_turn(installer: "_Installer", place: Path, in_base: Sequence[str]) -> None:
    """Fill the set unless another rank of this host has done so meanwhile.

    Turns have a lock of their own: whoever waited for all users of the set to leave would wait for their whole run.
    """
    turn = _opened(place.with_suffix(".turn"))
    try:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if not (place / COMPLETE).exists():
            installer.fill(place, in_base)
    finally:
        os.close(turn)


def _opened(lock_file: Path) -> int:
    return os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    uv = str(beside) if beside.exists() else shutil.which("uv")
    if uv is None:
        raise CannotInstall("there is no uv on this host, which installs packages: install it beside the worker")
    return uv


def _key_of(packages: Packages, in_base: Sequence[str]) -> str:
    parts = [str(packages.base), str(packages.alone), sys.version, *in_base, "", *sorted(set(packages.requirements))]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]


class _Installer:
    """Fills one set, within the limits of time and space."""

    def __init__(self, packages: Packages, uv: str, give_up_at: float) -> None:
        self._packages = packages
        self._uv = uv
        self._give_up_at = give_up_at

    def packages_of_base(self) -> list[str]:
        """The packages of the base with their versions, as `name==version`."""
        frozen = self._output("pip", "freeze", "--python", str(self._packages.base))
        return [line for line in frozen.splitlines() if "==" in line and "@" not in line]

    def fill(self, place: Path, in_base: Sequence[str]) -> None:
        """Make the environment in `place`. What an earlier attempt left there goes first. Raises `CannotInstall`."""
        wanted = ", ".join(self._packages.requirements)
        print(f"installing {wanted}" if wanted else "making an empty environment", flush=True)
        started_at = time.monotonic()
        shutil.rmtree(place, ignore_errors=True)
        try:
            self._output("venv", "--quiet", "--python", str(self._packages.base), str(place))
            self._add_base(place)
            pinned = self._resolve(place, in_base)
            if pinned:
                self._install(place, pinned)
        except BaseException:
            shutil.rmtree(place, ignore_errors=True)
            raise
        (place / COMPLETE).touch()
        print(f"installed {len(pinned)} packages in {time.monotonic() - started_at:.1f} s", flush=True)

    def _add_base(self, place: Path) -> None:
        if self._packages.alone:
            return
        code = "import site, sys; print(chr(10).join(site.getsitepackages()))"
        site_folders = subprocess.run(
            [str(self._packages.base), "-I", "-c", code], check=True, capture_output=True, text=True, timeout=60
        )
        (site,) = place.glob("lib/python3*/site-packages")
        lines = [f"import site; site.addsitedir({folder!r})" for folder in site_folders.stdout.split("\n") if folder]
        (site / "_base.pth").write_text("\n".join(lines) + "\n")
        (site / "_base.pth").chmod(0o644)

    def _resolve(self, place: Path, in_base: Sequence[str]) -> list[str]:
        """What is to be installed, each as `name==version`: all that the requirements need beside the base."""
        if not self._packages.requirements:
            return []
        requirements, constraints = place / "requirements.in", place / "constraints.txt"
        requirements.write_text("\n".join(self._packages.requirements) + "\n")
        constraints.write_text("\n".join(in_base) + "\n")
        resolved = self._output(
            "pip", "compile", "--quiet", "--no-header", "--no-annotate", "--only-binary", ":all:",
            "--python", str(self._packages.base), "--constraint", str(constraints), str(requirements),
        )  # fmt: skip
        present = {line.partition("==")[0].lower() for line in in_base}
        pinned = [line.strip() for line in resolved.splitlines() if "==" in line]
        return [line for line in pinned if line.partition("==")[0].lower() not in present]

    def _install(self, place: Path, pinned: Sequence[str]) -> None:
        """Install exactly these. A set that takes too much space or time is ended."""
        chosen, downloads = place / "requirements.txt", place / "downloads"  # counted while they arrive
        chosen.write_text("\n".join(pinned) + "\n")
        argv = [
            "pip", "install", "--no-deps", "--only-binary", ":all:", "--python", str(place / "bin" / "python"),
            "--link-mode", "hardlink", "--cache-dir", str(downloads), "--requirement", str(chosen),
        ]  # fmt: skip
        self._left_s()
        with (place / "install.log").open("w+b") as log:
            process = subprocess.Popen(
                [self._uv, *argv], cwd=place.parent, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                start_new_session=True, umask=_PUBLIC_UMASK,
            )  # fmt: skip
            try:
                self._watch(process, place)
            finally:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)
                    process.wait()
                log.seek(max(log.tell() - _TAIL_BYTES, 0))
                print(log.read().decode("utf-8", "replace"), flush=True)
        if process.returncode:
            raise CannotInstall(f"uv could not install the requirements: {_said_in(place / 'install.log')}")
        shutil.rmtree(downloads, ignore_errors=True)

    def _watch(self, process: "subprocess.Popen[bytes]", place: Path) -> None:
        while True:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_EVERY_S)
            if process.poll() is None:
                self._left_s()
            if (taken := bytes_below(place)) > self._packages.most_bytes:
                raise CannotInstall(
                    f"the requirements take more than {self._packages.most_bytes / 1e9:g} GB"
                    f" ({taken / 1e9:.2g} GB so far), the limit of this stack"
                )
            if process.poll() is not None:
                return

    def _left_s(self) -> float:
        """The seconds that are left. Raises `CannotInstall` if there are none."""
        left_s = self._give_up_at - time.monotonic()
        if left_s <= 0:
            raise CannotInstall(self._too_long())
        return left_s

    def _too_long(self) -> str:
        return f"installing the requirements took longer than {self._packages.timeout_s:g} s, the limit of this stack"

    def _output(self, *argv: str) -> str:
        """What uv prints. Raises `CannotInstall` with its last lines if it fails or takes too long."""
        left_s = self._left_s()
        try:
            ended = subprocess.run(
                [self._uv, *argv], check=False, cwd=self._packages.folder, stdin=subprocess.DEVNULL,
                capture_output=True, text=True, timeout=left_s, umask=_PUBLIC_UMASK,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            raise CannotInstall(self._too_long()) from None
        if ended.returncode:
            print(ended.stderr, flush=True)
            hint = "" if self._packages.alone else " (packages of the environment stay; environment: empty has none)"
            raise CannotInstall(f"uv cannot resolve the requirements{hint}: {_in_one_line(ended.stderr)}")
        return ended.stdout


def _said_in(log: Path) -> str:
    return _in_one_line(log.read_text("utf-8", "replace")[-_TAIL_BYTES:])


def _in_one_line(text: str) -> str:
    lines = [line.strip(_DRAWN) for line in text.splitlines()]
    return " ".join(line for line in lines if line)[-600:] or "it said nothing"
