"""The lookout: a thread of the worker that asks the database once a period whether there is work for the others.

A thread that works on rows says which rows mean work (`PeriodicThread.watched`). One statement asks for all of them. A
thread whose rows do not exist rests, and is woken when they do. While there is no answer every thread makes its passes
as if there were no lookout.
"""

import logging
import random
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any

import psycopg
from sqlalchemy import func, null, select
from sqlalchemy.dialects.postgresql.base import PGDialect

from jobs.db.engine import connection_options, libpq_address
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import LOOKS_A_PERIOD
from jobs.scheduling.placement_rows import is_alive
from worker.periodic import PeriodicThread, Watched

_log = logging.getLogger(__name__)

_PATIENCE_S = 1.0  # for an answer; a statement that takes longer costs more than the passes that it spares
_WATCHED_PERIODS = 3  # from one answer on. Then nobody counts on the next one
# The plan of a prepared statement stays while tables grow: what was a small table once must be read by its index.
_PLAN = " -c enable_seqscan=off -c jit=off"
_DIALECT = PGDialect(paramstyle="named")  # type: ignore[no-untyped-call]  # it leaves a percent sign as it is


class NotPrimary(Exception):
    """The connection leads to a standby, whose rows may be old."""

    def __init__(self) -> None:
        super().__init__("the server is a standby")


class Lookout(PeriodicThread):
    """Looks for the work of `threads`, on a connection that it keeps."""

    def __init__(self, settings: Settings, threads: Sequence[PeriodicThread]) -> None:
        period_s = min(settings.reconcile_period_s, settings.notify_period_s, settings.search_period_s)
        super().__init__("lookout", period_s=period_s, rests_first=False)
        self._settings = settings
        self._watched_of = {thread: watched for thread in threads if (watched := tuple(thread.watched()))}
        self._hosts = 1  # that are alive
        self._connection: psycopg.Connection[tuple[Any, ...]] | None = None
        self._is_blind = False

    def run(self) -> None:
        """Look until it is stopped."""
        super().run()
        self.disconnect()

    def once(self) -> None:
        """Ask once, and wake the threads that have work. Raises `psycopg.Error` or `NotPrimary`."""
        turn = random.random() * self._hosts  # noqa: S311 - nothing secret
        all_watched = chain.from_iterable(self._watched_of.values())
        asked = tuple(watched for watched in all_watched if turn <= watched.looks_a_period)
        hosts, *answers = self._ask(_statement(asked, self._settings.host_timeout_s, turn <= LOOKS_A_PERIOD))
        self._hosts = max(1, hosts or self._hosts)
        self._is_blind = False
        for thread in self._watched_of:
            thread.watch(_WATCHED_PERIODS * self._period_s)
        for watched, exist in zip(asked, answers, strict=True):
            if exist:
                watched.found()

    def failed(self, error: Exception) -> None:
        """Let all threads look for themselves until there is an answer again."""
        if not self._is_blind:
            self._is_blind = True
            _log.warning("lookout: no answer, all threads look for themselves until there is one: %s", error)
        self.disconnect()
        for thread in self._watched_of:
            thread.watch(0.0)
            thread.found()

    def disconnect(self) -> None:
        """Close the connection. The next look opens another one."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _ask(self, statement: str) -> list[Any]:
        if self._connection is None:
            options = connection_options(_PATIENCE_S)
            options["options"] += _PLAN
            address = libpq_address(self._settings.database_url)
            self._connection = psycopg.connect(address, autocommit=True, **options)
        row = self._connection.execute(statement, prepare=True).fetchone()
        assert row is not None
        is_standby, *answers = row
        if is_standby:
            raise NotPrimary
        return answers


@cache
def _statement(asked: Sequence[Watched], host_timeout_s: float, counts_hosts: bool) -> str:
    """Asks whether the server is a standby, for the number of live hosts, and whether there is each work."""
    hosts = select(func.count()).where(is_alive(host_timeout_s)).scalar_subquery() if counts_hosts else null()
    query = select(func.pg_is_in_recovery(), hosts, *(watched.exist for watched in asked))
    return str(query.compile(dialect=_DIALECT, compile_kwargs={"literal_binds": True}))
