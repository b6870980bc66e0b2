"""Makes a forked process the program that it is for, as an exec would: its names, environment and files.

Used by the template and by all that descends from it.
"""

import ctypes
import mmap
import multiprocessing
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import NoReturn

# linux/prctl.h
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_PR_SET_PDEATHSIG = 1
_STANDARD = frozenset({0, 1, 2})


class _MemoryMap(ctypes.Structure):
    """`struct prctl_mm_map`."""

    _fields_ = (
        *((name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
            "arg_start", "arg_end", "env_start", "env_end",
        )),
        ("auxv", ctypes.c_void_p), ("auxv_size", ctypes.c_uint32), ("exe_fd", ctypes.c_uint32),
    )  # fmt: skip


# Where proc_pid_stat(5) counts these fields, from 1.
_FIELDS = {"start_code": 26, "end_code": 27, "start_data": 45, "end_data": 46, "start_brk": 47, "start_stack": 28}
_libc = ctypes.CDLL(None, use_errno=True)
_libc.sbrk.restype = ctypes.c_void_p
_names: list[mmap.mmap] = []  # what the kernel shows of this process; never unmapped


def rename(argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """Set the arguments and the environment that /proc shows of this process. Raises `OSError` if the kernel cannot.

    No right is needed, but a kernel with CONFIG_CHECKPOINT_RESTORE. `os.environ` is not changed.
    """
    arguments = b"".join(os.fsencode(argument) + b"\0" for argument in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items())
    # Private memory: the kernel shows nothing of files, and shared memory is one to it.
    area = mmap.mmap(-1, len(arguments) + len(variables), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    area.write(arguments + variables)
    start = ctypes.addressof(ctypes.c_char.from_buffer(area))
    with open("/proc/self/stat", "rb") as stat:
        fields = stat.read().rpartition(b")")[2].split()
    memory = _MemoryMap(
        **{name: int(fields[number - 3]) for name, number in _FIELDS.items()},
        brk=_libc.sbrk(ctypes.c_ssize_t(0)),
        arg_start=start,
        arg_end=start + len(arguments),
        env_start=start + len(arguments),
        env_end=start + len(area),
        exe_fd=0xFFFFFFFF,
    )
    size = ctypes.c_ulong(ctypes.sizeof(memory))
    if _libc.prctl(_PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(memory), size, 0) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    _names.append(area)


def become(argv: Sequence[str], environment: Mapping[str, str], *, folder: str, kept: Collection[int] = ()) -> None:
    """Take over arguments, environment and folder. Close all descriptors but the standard ones and those in `kept`.

    What a new process would draw or look up by itself is drawn and looked up again.
    """
    rename(argv, environment)
    # Where no locale is set, the interpreter sets this variable when it starts.
    coerced = {name: os.environ[name] for name in ("LC_CTYPE",) if name in os.environ}
    os.environ.clear()
    os.environ.update({**coerced, **environment})
    os.chdir(folder)
    close_all_but({*_STANDARD, *kept})
    tempfile.tempdir = None
    multiprocessing.current_process().authkey = os.urandom(32)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed()  # Python's own generator does so at a fork


def close_all_but(kept: Collection[int]) -> None:
    """Close every other descriptor of this process."""
    for number in map(int, os.listdir("/proc/self/fd")):
        if number not in kept:
            with suppress(OSError):  # that of the list itself
                os.close(number)


def lead_session(*, stdin: int | None = None, stdout: int, stderr: int) -> None:
    """Be the leader of a session of its own, with these standard descriptors; without `stdin` there is no input."""
    os.setsid()
    source = os.open(os.devnull, os.O_RDONLY) if stdin is None else stdin
    for number, target in ((source, 0), (stdout, 1), (stderr, 2)):
        os.dup2(number, target)


def end_with_parent(number: int, parent: int) -> None:
    """Get this signal when the thread that forked this process ends. If `parent` is gone already, end now."""
    _libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)


def run(main: Callable[[], object]) -> NoReturn:
    """Run the program and end this process as the interpreter would, without the exit handlers of what was imported."""
    code = 1
    try:
        result = main()
        code = result if isinstance(result, int) else 0
    except SystemExit as error:
        if isinstance(error.code, str):
            sys.stderr.write(f"{error.code}\n")
        else:
            code = error.code or 0
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


class Forked:
    """A child of this process that was forked. It has what supervisions use of `subprocess.Popen`."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._wait(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end. The exit code, negative for a signal."""
        code = self._wait(0)
        assert code is not None
        return code

    def _wait(self, options: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, options)
            except ChildProcessError:  # reaped by other code
                self.returncode = 0
            else:
                if pid:
                    self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode
