"""Real components for tests. Each starts when the first test requests it, and stops when the run ends.

    postgres_url    session   an empty database on an embedded PostgreSQL
    database        test      address of a database of its own with all tables, cloned in some 0.05 s
    engine          test      an engine on `database`
    sessions        test      `jobs.db.engine.Sessions` on `database`
    broker_url      session   address of an embedded Valkey, in the form that Celery takes
    broker          test      the same address; the broker is emptied first
    stack           session   the whole stack with two CPU slots and the settings of `tests.stack_settings`: `.url
                              .token .database_url .broker_url .pid_of("worker") .log_of("worker") .home`
    client          session   a `hora.service.Service` on `stack`

A test may kill a part of the stack: the keeper starts it again, and the test waits for that. A test that needs other
settings makes a stack of its own: `with Stack(home, port=0, slots=2)` in a folder from `short_folder`.
Everything also stops when this process is killed: a keeper watches it.
"""

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine, QueuePool

import migrations
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for
from tests.stack_settings import stack_settings
from tests.waiting import until

if TYPE_CHECKING:
    from hora.service import Service

pytest_plugins = ["tests.costs", "tests.tiers"]
_TEMPLATE = "hora_template"
_numbers = count(1)

# The time of an example depends on the machine, so it says little about the code under test.
settings.register_profile("hora", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hora")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name bytes by their length: archives contain the time, but every process must give a test the same name."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Put the folders with the longest tests first: at the end of a run no process works alone on one of them."""
    items.sort(key=lambda item: item.path.parent.name not in ("chaos", "upgrade"))


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Reset Keras's precision after each test: a rank builds one network, but a process of tests builds hundreds."""
    yield
    if keras := sys.modules.get("keras"):
        keras.config.set_dtype_policy("float32")


@pytest.fixture(autouse=True)
def full_priority() -> Iterator[None]:
    """Fail a test that makes this process nice, or its session: on a busy machine those after it would starve."""
    before = _priority()
    yield
    assert _priority() == before, "this test, or one that ran beside it, made the whole run nice"


def _priority() -> tuple[int, str]:
    of_session = Path("/proc/self/autogroup")  # where the kernel shares the cores among sessions
    return os.nice(0), of_session.read_text() if of_session.exists() else ""


@pytest.fixture(scope="session")
def session_folder() -> Iterator[Path]:
    """A folder with a short path, as sockets need it, that every user may enter, as the database's user must."""
    with tempfile.TemporaryDirectory(prefix="hora-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def short_folder(session_folder: Path) -> Iterator[Path]:
    """A folder with a short path for one test."""
    folder = session_folder / f"t{next(_numbers)}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _memory_folder() -> Iterator[Path]:
    """A folder in memory if enough is free. On ext4, cloning a database is slow after others were dropped."""
    memory = Path("/dev/shm")
    is_enough = memory.is_dir() and os.access(memory, os.W_OK) and shutil.disk_usage(memory).free > 2 * 2**30
    where = memory if is_enough else None
    with tempfile.TemporaryDirectory(prefix="hora-", dir=where, ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def _components(_memory_folder: Path) -> Iterator[Stack]:
    with Stack(_memory_folder / "parts", port=0, parts=("database", "broker")) as components:
        with psycopg.connect(components.database_url, autocommit=True) as connection:
            for setting in ("fsync", "full_page_writes"):  # test data need not survive a crash of the machine
                connection.execute(f"ALTER SYSTEM SET {setting} = off")
            connection.execute("SELECT pg_reload_conf()")
        yield components


@pytest.fixture(scope="session")
def postgres_url(_components: Stack) -> str:
    """Address of an empty database whose owner may create others."""
    return _components.database_url


@pytest.fixture(scope="session")
def broker_url(_components: Stack) -> str:
    """Address of a broker, shared by the tests of a run."""
    return _components.broker_url


@pytest.fixture
def broker(broker_url: str) -> str:
    """Address of the shared broker, emptied."""
    with redis.Redis.from_url(broker_url.replace("redis+socket://", "unix://")) as connection:
        connection.flushall()
    return broker_url


@pytest.fixture(scope="session")
def _template(postgres_url: str) -> str:
    """A database with all tables. Nobody is connected to it, so it can be cloned."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_TEMPLATE}"')
    migrations.upgrade(postgres_url.replace("/hora?", f"/{_TEMPLATE}?"))
    return _TEMPLATE


@pytest.fixture
def database(postgres_url: str, _template: str) -> Iterator[str]:
    """Address of this test's own database, with all tables and only the rows of the migrations."""
    with a_clone(postgres_url, _template) as address:
        yield address


@contextmanager
def a_clone(postgres_url: str, _template: str) -> Iterator[str]:
    """A database that is dropped at the end; its address."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{_template}" STRATEGY file_copy')
        yield postgres_url.replace("/hora?", f"/{name}?")
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def bare_url(postgres_url: str) -> Iterator[str]:
    """The address of a database without tables."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE DATABASE bare TEMPLATE template0")
        yield postgres_url.replace("/hora?", "/bare?")
        connection.execute("DROP DATABASE bare WITH (FORCE)")


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """An engine on this test's own database."""
    engine = engine_for(database)
    yield engine
    # A thread that has a connection now would keep it open, and some later test would be blamed for it.
    pool = engine.pool
    assert isinstance(pool, QueuePool)
    until(lambda: pool.checkedout() == 0, what="the return of all connections")
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    """Sessions on this test's own database."""
    return sessions_for(engine)


@pytest.fixture(scope="session")
def stack(session_folder: Path) -> Iterator[Stack]:
    """The whole stack: database, broker, api and a worker with two CPU slots."""
    with ExitStack() as end:
        with stack_settings(session_folder):  # for the stack alone: other tests read settings from the environment too
            stack = end.enter_context(Stack(session_folder / "stack", port=0, slots=2))
        yield stack


@pytest.fixture(scope="session")
def client(stack: Stack) -> "Iterator[Service]":
    """A client of the whole stack."""
    from hora.service import Service

    with Service(stack.url, stack.token) as client:
        yield client


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Children can be interrupted even if this process is a shell's background job, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
