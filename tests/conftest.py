"""Real components for tests; each starts when the first test asks for it, and is gone when the run ends.

    postgres_url    session   an empty database on an embedded PostgreSQL
    database        test      address of a database of its own with all tables, cloned in some 0.05 s
    engine          test      an engine on `database`
    sessions        test      `jobs.db.engine.Sessions` on `database`
    broker_url      session   an embedded Valkey, as Celery wants its address
    broker          test      the same, emptied
    stack           session   the whole stack with two CPU slots: `.url .token .database_url .broker_url
                              .pid_of("worker") .log_of("worker") .home`
    client          session   a `hora.service.Service` on `stack`

A test that kills a part of the stack, or needs other settings, makes its own: `with Stack(home, port=0, slots=2)`
in a folder from `short_folder`. Everything also goes when this process is killed: the keeper watches it.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
import redis
from hypothesis import HealthCheck, settings
from sqlalchemy import Engine

import migrations
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for

if TYPE_CHECKING:
    from hora.service import Service

_TEMPLATE = "hora_template"
_numbers = count(1)

# How long an example takes says more about the machine than about what is tested.
settings.register_profile("hora", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("hora")


def pytest_make_parametrize_id(val: object) -> str | None:
    """Names bytes by their length: archives hold the time, and every process must give a test the same name."""
    return f"{len(val)} bytes" if isinstance(val, bytes) else None


@pytest.fixture(autouse=True)
def full_precision() -> Iterator[None]:
    """Each test begins with Keras's own precision: a rank builds one network, a process of tests hundreds."""
    yield
    if keras := sys.modules.get("keras"):
        keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="session")
def session_folder() -> Iterator[Path]:
    """A folder with a short path, which every user may enter: sockets and a database's own user need that."""
    with tempfile.TemporaryDirectory(prefix="hora-", ignore_cleanup_errors=True) as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture
def short_folder(session_folder: Path) -> Iterator[Path]:
    """Such a folder for one test."""
    folder = session_folder / f"t{next(_numbers)}"
    folder.mkdir(mode=0o755)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def _memory_folder() -> Iterator[Path]:
    """A folder in memory, where there is enough. On ext4 the files of a clone are slow to make after others went."""
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
            for setting in ("fsync", "full_page_writes"):  # what a test leaves need not outlive the machine
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
    """A database with all tables that nobody is connected to, so that it can be cloned."""
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_TEMPLATE}"')
    migrations.upgrade(postgres_url.replace("/hora?", f"/{_TEMPLATE}?"))
    return _TEMPLATE


@pytest.fixture
def database(postgres_url: str, _template: str) -> Iterator[str]:
    """Address of a database of this test's own, with all tables and no rows but those of the migrations."""
    name = f"test_{next(_numbers)}"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{_template}" STRATEGY file_copy')
        yield postgres_url.replace("/hora?", f"/{name}?")
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture
def engine(database: str) -> Iterator[Engine]:
    """An engine on this test's own database."""
    engine = engine_for(database)
    yield engine
    engine.dispose()


@pytest.fixture
def sessions(engine: Engine) -> Sessions:
    """Sessions on this test's own database."""
    return sessions_for(engine)


@pytest.fixture(scope="session")
def stack(session_folder: Path) -> Iterator[Stack]:
    """The whole stack: database, broker, api and a worker with two CPU slots."""
    with Stack(session_folder / "stack", port=0, slots=2) as stack:
        yield stack


@pytest.fixture(scope="session")
def client(stack: Stack) -> "Iterator[Service]":
    """A client of the whole stack."""
    from hora.service import Service

    with Service(stack.url, stack.token) as client:
        yield client
