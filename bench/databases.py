"""Separate databases for the measurements of `bench`, on an embedded PostgreSQL, and their processor time."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count

import psutil
import psycopg

import migrations
from hora.stack.control import Stack
from jobs.db.engine import Sessions, engine_for, sessions_for

_numbers = count(1)


@contextmanager
def database(stack: Stack) -> Iterator[tuple[str, Sessions]]:
    """A database with all tables: its address, and sessions on it."""
    with empty_database(stack) as url:
        migrations.upgrade(url)
        engine = engine_for(url)
        yield url, sessions_for(engine)
        engine.dispose()


@contextmanager
def empty_database(stack: Stack) -> Iterator[str]:
    """The address of a database without tables."""
    name = f"bench_{next(_numbers)}"
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
        yield stack.database_url.replace("/hora?", f"/{name}?")
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@contextmanager
def copied_database(stack: Stack, url: str) -> Iterator[tuple[str, Sessions]]:
    """A copy of the database at `url`, to which nobody may be connected: its address, and sessions on it."""
    name, original = f"bench_{next(_numbers)}", url.split("?", maxsplit=1)[0].rpartition("/")[2]
    with psycopg.connect(stack.database_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{name}" TEMPLATE "{original}" STRATEGY file_copy')
        copied = url.replace(f"/{original}?", f"/{name}?")
        engine = engine_for(copied)
        yield copied, sessions_for(engine)
        engine.dispose()
        connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def analyze(url: str) -> None:
    """Update the statistics of the tables, as the database does by itself after a while."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("VACUUM ANALYZE")


def processor_s(stack: Stack) -> float:
    """Processor seconds of all processes of the database, also of those that have ended."""
    postmaster = psutil.Process(stack.pid_of("database"))
    own = postmaster.cpu_times()
    spent = own.user + own.system + own.children_user + own.children_system
    for process in postmaster.children(recursive=True):
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        spent += times.user + times.system
    return spent
