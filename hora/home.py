"""The folder of a stack: the paths below `HORA_HOME`, its secrets, its state file and its lock.

Used by the keeper, by `hora down` and by the client side, which finds the address and the token here.

    StackError      the stack cannot do what was asked; the text is one sentence for a person
"""

import errno
import fcntl
import hashlib
import json
import os
import pwd
import re
import secrets
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from jobs.runtime.closed_home import close_home
from jobs.runtime.files import unless_full
from jobs.runtime.processes import ProcessId

# sun_path has 108 bytes with its closing zero. PostgreSQL puts a lock file beside its socket, but only the
# socket itself is bound.
MAX_SOCKET_PATH_BYTES = 107
_PLAIN_PATH = re.compile(r"^[A-Za-z0-9/._+-]+$")  # needs no quoting in any kind of URL


class StackError(Exception):
    """The stack cannot do what was asked. The text is one sentence for a person."""


@dataclass(frozen=True)
class State:
    """What the keeper wrote about its stack. Addresses are null until they are known."""

    keeper: ProcessId | None = None
    parts: dict[str, ProcessId] = field(default_factory=dict)
    phase: str = "starting"  # starting ... | ready | stopping | stopped | failed
    failure: str | None = None
    stopped: tuple[str, ...] = ()  # what the keeper stopped at its end, a sentence each
    url: str | None = None
    database_url: str | None = None
    broker_url: str | None = None


@dataclass(frozen=True)
class Home:
    """The folder of one stack. `path` is absolute and without links, so that it can mark processes."""

    path: Path

    @classmethod
    def at(cls, path: Path | str) -> "Home":
        """The home at `path`, which need not exist yet."""
        return cls(Path(path).expanduser().resolve())

    @property
    def url_file(self) -> Path:
        """The API's address, one line."""
        return self.path / "url"

    @property
    def token_file(self) -> Path:
        """An admin token, readable by its owner alone."""
        return self.path / "token"

    @property
    def state_file(self) -> Path:
        """The keeper's state, as JSON."""
        return self.path / "state.json"

    def log_file(self, part: str) -> Path:
        """Where a part's standard output and error go."""
        return self.path / "logs" / f"{part}.log"

    def create(self) -> None:
        """Make the home and its log folder, closed to others. Raises `StackError`."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            close_home(self.path, scripts_pass="HORA_CODE_USER" in os.environ)
            (self.path / "logs").mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise cannot_write(self.path, error) from error
        if self.path.stat().st_uid != os.geteuid():
            raise StackError(f"HORA_HOME {self.path} belongs to another user; set HORA_HOME to a folder of your own.")

    def refuse_home_folder(self) -> None:
        """As root: refuse a stack inside a person's home folder, because the database's user may not enter it.

        PostgreSQL does not run as root. Its user must be able to enter every folder above the data.
        """
        for person in pwd.getpwall():
            folder = Path(person.pw_dir)
            real = person.pw_uid == 0 or 1000 <= person.pw_uid < 65534
            if real and folder != Path("/") and self.path.is_relative_to(folder):
                raise StackError(
                    f"As root, HORA_HOME may not lie in a home folder ({self.path} is in {folder}), since the "
                    "database runs as another user; leave it unset for /var/lib/hora, or choose another folder."
                )

    def runtime_folder(self) -> Path:
        """A folder for sockets, `run` in the home where that is short and plain enough, else in the temporary folder.

        Raises `StackError` when somebody else made the folder.
        """
        folder = self.path / "run"
        if not _holds_sockets(folder):
            name = f"hora-{os.geteuid()}-{hashlib.sha256(os.fsencode(self.path)).hexdigest()[:12]}"
            folder = Path(tempfile.gettempdir()) / name
            folder = folder if _holds_sockets(folder) else Path("/tmp") / name  # noqa: S108 - its owner is checked
        folder.mkdir(mode=0o700, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid() or status.st_mode & 0o022:
            raise StackError(f"{folder}, the folder for this stack's sockets, was made by somebody else; remove it.")
        folder.chmod(0o700)
        return folder

    def token(self, configured_token: str | None = None) -> str:
        """The admin token: the given one, else the one on file, else a new one. It is on file afterwards."""
        try:
            stored = self.token_file.read_text().strip()
        except FileNotFoundError:
            stored = ""
        token = configured_token or stored or secrets.token_urlsafe(32)
        if token != stored:
            write_private(self.token_file, token + "\n")
        return token

    def read_state(self) -> State:
        """What the last keeper wrote; an empty state where there was none or it is unreadable."""
        try:
            return _state_from(json.loads(self.state_file.read_text()))
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return State()

    def write_state(self, state: State) -> None:
        """Replace the state file at once, so that a reader never sees half of it."""
        write_private(self.state_file, json.dumps(asdict(state), indent=1) + "\n")

    def note_stop(self, state: State) -> None:
        """Write the state of a stopped stack and remove its address. On a disk without space both stay as they are."""
        with unless_full():
            self.write_state(state)
        with unless_full():
            self.url_file.unlink(missing_ok=True)

    @contextmanager
    def lock(self, *, patience_s: float = 0.0) -> Iterator[bool]:
        """Hold the keeper's lock; yields False if another process has it. The lock ends with the process at the latest.

        The keeper waits a little, because a process that checks the lock takes it for a moment.
        """
        try:
            descriptor = _opened_lock(self.path / "keeper.lock")
        except PermissionError as error:
            raise StackError(f"The stack in {self.path} belongs to another user.") from error
        except OSError as error:
            raise cannot_write(self.path, error) from error
        deadline = time.monotonic() + patience_s
        try:
            while not (ours := _locked(descriptor)) and time.monotonic() < deadline:
                time.sleep(0.02)
            yield ours
        finally:
            os.close(descriptor)

    def is_kept(self) -> bool:
        """Whether a keeper is alive on this home."""
        if not (self.path / "keeper.lock").exists():
            return False
        with self.lock() as free:
            return not free


def cannot_write(path: Path, error: OSError) -> StackError:
    """The error for a person when a file of the home cannot be made."""
    return StackError(f"HORA_HOME {path} cannot be written: {error.strerror}.")


def write_private(path: Path, text: str) -> None:
    """Write `text` to `path` in one move, readable by the owner alone from its first byte on."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")  # mode 0600
    try:
        with os.fdopen(descriptor, "w") as file:
            file.write(text)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def _opened_lock(path: Path) -> int:
    """The lock's file. One that exists can be locked on a read-only disk too: the stack there must be stopped."""
    try:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if error.errno != errno.EROFS or not path.exists():
            raise
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holds_sockets(folder: Path) -> bool:
    longest = folder / "postgres" / ".s.PGSQL.5432"
    return len(os.fsencode(longest)) <= MAX_SOCKET_PATH_BYTES and _PLAIN_PATH.match(str(folder)) is not None


def _state_from(document: dict[str, Any]) -> State:
    state = State(**document)
    return replace(
        state,
        keeper=ProcessId(**document["keeper"]) if document["keeper"] else None,
        parts={name: ProcessId(**value) for name, value in document["parts"].items()},
        stopped=tuple(document["stopped"]),
    )
