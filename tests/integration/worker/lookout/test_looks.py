"""What the lookout asks the database, and how often."""

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest
from sqlalchemy import ColumnElement, func, literal, select, true

from jobs.db.engine import Sessions
from jobs.db.tables import Host
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.lookout.works import Site, a_queued_job
from worker import lookout as lookout_module
from worker.datasets.fetcher import DatasetFetcher
from worker.dispatcher import Dispatcher
from worker.lookout import Lookout
from worker.periodic import PeriodicThread, Watched


class _Seeing(PeriodicThread):
    """Records what the lookout finds."""

    def __init__(self, *, exist: ColumnElement[bool]) -> None:
        super().__init__("seeing", period_s=1.0)
        self.calls: list[str] = []
        self._exist = exist

    def watched(self) -> Sequence[Watched]:
        return [
            Watched(self._exist, lambda: self.calls.append("here")),
            Watched(self._exist, lambda: self.calls.append("anywhere"), looks_a_period=4),
        ]


@contextmanager
def _closing(lookout: Lookout) -> Iterator[None]:
    try:
        yield
    finally:
        lookout.disconnect()


def test_many_hosts_share_the_looks_for_what_any_of_them_may_do(
    sessions: Sessions, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(16):
        job_rows.a_host(sessions, f"h{number:02}", slots=1)
    thread = _Seeing(exist=true())
    lookout = Lookout(settings, [thread])
    turns = iter([1.0, 0.5, 0.26, 0.25, 0.0])
    monkeypatch.setattr(random, "random", lambda: next(turns))
    with _closing(lookout):
        lookout.once()  # it does not know yet that it is one of many
        for _ in range(4):
            lookout.once()
    both = ["here", "anywhere"]
    assert thread.calls == [*both, "here", "here", *both, *both]


def test_an_agent_of_many_hosts_dispatches_when_its_lookout_found_the_queue(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = site.threads["agent"]
    agent.once()
    monkeypatch.setattr(Dispatcher, "has_turn", lambda _: False)
    handled = a_queued_job(site)
    agent.once()
    assert not handled()
    _, of_queue = agent.watched()
    of_queue.found()
    agent.once()
    assert handled()


def test_a_name_with_any_character_is_asked_for_as_it_is(sessions: Sessions, settings: Settings) -> None:
    name = "100%s :h'ä\\ost"
    job_rows.a_host(sessions, name)
    thread = _Seeing(exist=select(Host.name).where(Host.name == literal(name)).exists())
    with _closing(lookout := Lookout(settings, [thread])):
        lookout.once()
    assert thread.calls == ["here", "anywhere"]


def test_a_standby_is_not_believed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its rows may be old."""
    thread = _Seeing(exist=~true())
    lookout = Lookout(settings, [thread])
    monkeypatch.setattr(func, "pg_is_in_recovery", true, raising=False)
    lookout_module._statement.cache_clear()
    try:
        with _closing(lookout), pytest.raises(lookout_module.NotPrimary):
            lookout.once()
    finally:
        lookout_module._statement.cache_clear()


def test_the_statement_reads_no_long_table_as_a_whole(site: Site, settings: Settings) -> None:
    """Hundreds of hosts ask it once a second."""
    lookout = Lookout(settings, list(site.threads.values()))
    with _closing(lookout):
        lookout.once()
        assert lookout._connection is not None
        threads = [*site.threads.values(), DatasetFetcher(site.sessions, settings)]
        asked = tuple(watched for thread in threads for watched in thread.watched())
        statement = lookout_module._statement(asked, settings.host_timeout_s, True)
        plan = "\n".join(line for (line,) in lookout._connection.execute(f"EXPLAIN {statement}"))
    assert "Join" not in plan, "a join may begin with the longer table"
    assert "Nested Loop" not in plan
    for table in ("jobs", "attempts", "slots", "studies", "webhook_deliveries"):
        assert f" on {table}" in plan
        assert f"Seq Scan on {table}" not in plan
