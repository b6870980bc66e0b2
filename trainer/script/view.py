"""What a script sees of the file system: the system's programs, its Python, its data and its own folders. Pure.

`arguments` are those of bubblewrap (`bwrap(1)`); `readable_everywhere` is the same for Landlock.
"""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.runtime.shared_memory import SHARED_MEMORY

_SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/usr", "/nix/store", "/sys")
# Of /etc only what programs need to run, to find hosts and to trust certificates: no keys, no settings of services.
_ETC = tuple(f"/etc/{name}" for name in (
    "OpenCL", "alternatives", "ca-certificates", "fonts", "gai.conf", "group", "host.conf", "hosts", "ld.so.cache",
    "ld.so.conf", "ld.so.conf.d", "localtime", "mime.types", "nsswitch.conf", "os-release", "passwd", "pki",
    "protocols", "resolv.conf", "services", "ssl/certs", "ssl/openssl.cnf", "timezone", "vulkan",
))  # fmt: skip
TEMPORARY = "/tmp"  # noqa: S108 - a folder of its own in the view
_DEVICES = ("null", "zero", "full", "random", "urandom", "tty")
_ABOVE = ("/etc", "/etc/ssl", "/nix", "/var")
_NVIDIA = Path("/proc/driver/nvidia/gpus")
_GPU = re.compile(r"nvidia\d+")
_SHARED_DEVICES = re.compile(r"nvidia(-.+|ctl)|infiniband|kfd|dri")


@dataclass(frozen=True)
class View:
    """What a script may use beside the system. Absolute paths."""

    readable: Sequence[str]
    writable: Sequence[str]
    temporary: str  # a folder of its own, which it sees as /tmp too
    shared_memory: str  # a folder in memory, which it sees as /dev/shm: that of all ranks of the attempt on this host
    gpus: Sequence[str] = ()  # the UUIDs of the attempt's GPUs on this host


def arguments(view: View, *, folder: str) -> list[str]:
    """Bubblewrap's arguments for a view, with the script in `folder`."""
    return [
        *_system_arguments(),
        "--bind", view.temporary, TEMPORARY, "--symlink", TEMPORARY, f"/var{TEMPORARY}",  # before what may lie below it
        *_binds("--ro-bind-try", [*_python_folders(), *view.readable]),
        *_binds("--bind", view.writable),
        "--proc", "/proc", "--dev", "/dev", *_binds("--dev-bind-try", devices(view.gpus)),
        "--bind", view.shared_memory, SHARED_MEMORY, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", folder,
    ]  # fmt: skip


def readable_everywhere(view: View) -> list[str]:
    """What Landlock lets the script read."""
    return [*_SYSTEM, *_ETC, "/proc", *_python_folders(), *view.readable]


def writable_everywhere(view: View) -> list[str]:
    """What Landlock lets the script write, beside /dev/shm."""
    own = [f"/dev/{name}" for name in _DEVICES]
    return [*view.writable, view.temporary, *own, *devices(view.gpus)]


def devices(gpus: Sequence[str], dev: Path = Path("/dev"), known: Path = _NVIDIA) -> list[str]:
    """The devices of the attempt's GPUs, and those that all GPUs share. Nobody else's GPU."""
    if not gpus:
        return []
    try:
        names = sorted(os.listdir(dev))
    except OSError:
        return []
    own = _device_names(gpus, known) or {name for name in names if _GPU.fullmatch(name)}  # an unknown driver
    return [str(dev / name) for name in names if name in own or _SHARED_DEVICES.fullmatch(name)]


def _device_names(gpus: Sequence[str], known: Path) -> set[str]:
    """The names of the devices with these UUIDs, as NVIDIA's driver tells them; empty if it does not tell all."""
    minors = {}
    for information in known.glob("*/information"):
        fields = dict(re.findall(r"^([^:\n]+):\s*(.*?)\s*$", information.read_text(errors="replace"), re.MULTILINE))
        minors[fields.get("GPU UUID")] = fields.get("Device Minor")
    found = [minors.get(gpu) for gpu in gpus]
    return {f"nvidia{minor}" for minor in found} if all(found) else set()


def _system_arguments() -> Iterator[str]:
    for above in _ABOVE:
        yield from _open_folder(above)
    for path in (*_SYSTEM, *_ETC):
        if os.path.islink(path) and path in _SYSTEM:
            yield from ("--symlink", os.readlink(path), path)
        elif os.path.exists(path):
            yield from ("--ro-bind", os.path.realpath(path), path)


def _python_folders() -> list[str]:
    """The folders of the Python that this process runs, its packages and those of the Python below it."""
    real = os.path.dirname(os.path.dirname(os.path.realpath(sys.executable)))
    return [folder for folder in dict.fromkeys((sys.prefix, sys.base_prefix, real)) if folder not in ("/", "/usr")]


def _open_folder(path: str) -> tuple[str, ...]:
    return "--perms", "0755", "--dir", path


def _binds(option: str, paths: Sequence[str]) -> Iterator[str]:
    """What lies deeper comes later: it is bound on top of what is above it. The folders above can be passed."""
    for path in sorted(set(paths), key=lambda path: path.count("/")):
        for above in reversed(Path(path).parents[:-1]):
            if not any(above.is_relative_to(system) for system in _SYSTEM):
                yield from _open_folder(str(above))
        yield from (option, path, path)
