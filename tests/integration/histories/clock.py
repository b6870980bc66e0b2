"""A clock that tests set: in one database, `now()` returns the time in a row.

The service reads no clock except `now()` of the database. The search path of this database names `public` before
`pg_catalog`. So the function `public.now()` is used in place of PostgreSQL's own, in every statement. It is created
before the tables, so their defaults use it too.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import psycopg
from sqlalchemy import Engine, text

import migrations

START = datetime(2030, 1, 1, tzinfo=UTC)
_NAME = "histories"
_FUNCTION = """
    CREATE TABLE public.clock (at timestamptz NOT NULL);
    INSERT INTO public.clock VALUES ('2030-01-01 00:00:00+00');
    CREATE FUNCTION public.now() RETURNS timestamptz LANGUAGE sql STABLE AS 'SELECT at FROM public.clock';
"""


@contextmanager
def database_with_a_clock(postgres_url: str) -> Iterator[str]:
    """Address of a database with all tables, in which time stands still until a `Clock` sets it."""
    url = postgres_url.replace("/hora?", f"/{_NAME}?")
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f'CREATE DATABASE "{_NAME}"')
        connection.execute(f'ALTER DATABASE "{_NAME}" SET search_path = public, pg_catalog')
        connection.execute(f'ALTER DATABASE "{_NAME}" SET synchronous_commit = off')  # thousands of short transactions
        with psycopg.connect(url, autocommit=True) as inside:
            inside.execute(_FUNCTION)
        migrations.upgrade(url)
        yield url
        connection.execute(f'DROP DATABASE "{_NAME}" WITH (FORCE)')


class Clock:
    """The time that `now()` returns to all clients of the database."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.at = START

    def set(self, at: datetime) -> None:
        """Set the time to `at`. It stays so until the next call."""
        self.at = at
        with self._engine.begin() as connection:
            connection.execute(text("UPDATE public.clock SET at = :at"), {"at": at})

    def forward(self, seconds: float) -> None:
        """Move the time forward."""
        self.set(self.at + timedelta(seconds=seconds))
