"""What the lookout asks the database, and how often. It wakes the threads that have work, without hints.

But nothing depends on it: threads have their passes while it is silent, cannot connect, or has died.
"""

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import ColumnElement, func, literal, select, true

from jobs.db.engine import Sessions
from jobs.db.tables import Host
from jobs.lifecycle import leases
from jobs.model.states import EndReason
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of
from tests.integration.worker.lookout.works import (
    EACH_WORK,
    LONG_S,
    Handled,
    Site,
    a_new_dataset,
    a_queued_job,
    a_search,
    placed,
    resting,
    running,
    seen_by,
)
from tests.receivers import receiving
from tests.waiting import until
from worker import lookout as lookout_module
from worker import periodic
from worker.datasets.fetcher import DatasetFetcher
from worker.datasets.validator import Validator
from worker.dispatcher import Dispatcher
from worker.lookout import Lookout
from worker.outward.notifier import Notifier
from worker.periodic import PeriodicThread, Watched
from worker.sampling.sampler import Sampler
from worker.searcher import Searcher


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", slots=2, host_timeout_s=LONG_S,
        lease_s=0.2, heartbeat_period_s=LONG_S, reconcile_period_s=0.05, notify_period_s=0.05, search_period_s=0.05,
        data_roots=str(tmp_path / "data"), webhook_allow="127.0.0.1",
    )  # fmt: skip


@pytest.fixture
def site(sessions: Sessions, settings: Settings, hints: Hints, sampler: Sampler) -> Iterator[Site]:
    job_rows.a_host(sessions)
    job_rows.a_host(sessions, "hb", slots=4)
    threads = {
        "agent": agent_of(sessions, settings, hints),
        "validator": Validator(sessions, settings),
        "notifier": Notifier(sessions, settings),
        "searcher": Searcher(sessions, settings),
        "sampler": sampler,
    }
    with receiving() as receiver:
        yield Site(sessions, threads, receiver.url)


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


def test_an_agent_of_many_dispatches_when_its_lookout_found_jobs(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
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


@EACH_WORK
def test_each_work_is_noticed_by_a_thread_that_rests_and_its_passes_leave_none(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[Site], Handled]
) -> None:
    lookout = Lookout(settings, list(site.threads.values()))
    with resting(lookout, site.threads[name], monkeypatch=monkeypatch):
        assert not any(map(any, seen_by(site).values()))
        until(work(site))
        if work not in (a_queued_job, a_search, a_new_dataset):  # which others, or later passes, go on with
            until(lambda: not any(seen_by(site)[name]), what="nothing more to do")


def test_slots_of_a_live_attempt_are_seen_for_the_sampler(site: Site) -> None:
    with site.sessions.begin() as session:
        lease = placed(session)
    assert seen_by(site)["sampler"] == [True]
    with site.sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.end(session, lease, EndReason.CANCELLED)
    assert seen_by(site)["sampler"] == [False]


def test_threads_make_their_passes_while_the_database_does_not_answer_the_lookout(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookout waits for a table that the agent does not read, until its patience ends."""
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with resting(lookout, agent, monkeypatch=monkeypatch), site.sessions.begin() as session:
        session.connection().exec_driver_sql("LOCK TABLE dataset_versions IN ACCESS EXCLUSIVE MODE")
        until(a_queued_job(site))


def test_threads_make_their_passes_without_a_lookout_that_can_connect(site: Site, settings: Settings) -> None:
    nowhere = settings.model_copy(update={"database_url": "postgresql:///hora?host=/nowhere"})
    with running(site.threads["agent"], Lookout(nowhere, list(site.threads.values()))):
        until(a_queued_job(site))


def test_nobody_counts_on_a_lookout_that_died(site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_REST_S", LONG_S)
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with running(agent, lookout):
        until(lambda: agent.is_watched)
        assert lookout.stop(wait_s=120)
        until(a_queued_job(site))


def test_a_connection_that_was_cut_is_replaced(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lookout = Lookout(settings, list(site.threads.values()))
    with resting(lookout, site.threads["agent"], monkeypatch=monkeypatch):
        assert lookout._connection is not None
        with psycopg.connect(settings.database_url, autocommit=True) as connection:
            connection.execute("SELECT pg_terminate_backend(%s)", [lookout._connection.info.backend_pid])
        until(lambda: "lookout: no answer, all threads look for themselves" in caplog.text)
        until(a_queued_job(site))
