"""The lookout wakes the threads that have work, without hints; and nothing depends on it."""

import random
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import ColumnElement, func, literal, select, true, update
from sqlalchemy.orm import Session

from jobs.data import versions
from jobs.db.engine import Sessions
from jobs.db.tables import AccountStanding, Attempt, DatasetVersion, Host, Job, Study, WebhookDelivery
from jobs.insight.studies.store import write_search
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, new_id, request_cancel
from jobs.model.scopes import Scope
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.outward.webhooks import store
from jobs.people.tokens import store_token
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from jobs.views.data import NewDataset
from jobs.views.studies import StudySpec
from tests.integration.jobs import job_rows
from tests.integration.worker.agents import agent_of, dead_process
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

LONG_S = 1e5  # longer than a test: only a lookout ends such a rest
FITS_NOWHERE = 8  # slots


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", slots=2, host_timeout_s=LONG_S,
        lease_s=0.2, heartbeat_period_s=LONG_S, reconcile_period_s=0.05, notify_period_s=0.05, search_period_s=0.05,
        data_roots=str(tmp_path / "data"), webhook_allow="127.0.0.1",
    )  # fmt: skip


@dataclass
class Site:
    """The threads of host ha, beside a host hb of which nobody looks after anything."""

    sessions: Sessions
    threads: dict[str, PeriodicThread]
    url: str  # that takes messages


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


Handled = Callable[[], object]


def _placed(session: Session, host: str = "ha", *, gpus: int = 2) -> Lease:
    """A job with an attempt on `host`, written in one transaction: no agent sees less than what a test writes."""
    job_id = job_rows.submit_once(session, spec_from(job_rows.SPEC | {"gpus": gpus})).job.id
    (lease,) = placing.place(session, [Placement(job_id, (Share(host, tuple(range(gpus))),))], lease_s=60)
    return lease


def _has_ended(sessions: Sessions, lease: Lease) -> Handled:
    return lambda: job_rows.the_attempt(sessions, lease).ended_at is not None


def a_queued_job(site: Site) -> Handled:
    job_id = job_rows.a_job(site.sessions, gpus=4)
    return lambda: job_rows.the_job(site.sessions, job_id).attempt > 0


def rows_about_a_queue_that_is_empty(site: Site) -> Handled:
    with site.sessions.begin() as session:
        session.add(
            AccountStanding(
                project="default", user_name="me", used_slot_s=0, used_part=0, entitled_part=1, is_over=False
            )
        )
    return lambda: not job_rows.count(site.sessions, AccountStanding)


def slots_that_are_kept_for_no_job(site: Site) -> Handled:
    with site.sessions.begin() as session:
        session.execute(update(Host).where(Host.name == "hb").values(kept_for=new_id()))
    return lambda: not any(job_rows.reservations(site.sessions).values())


def an_attempt_whose_hint_was_lost(site: Site) -> Handled:
    """It is cancelled before it begins, so that no supervisor is left of this test."""
    with site.sessions.begin() as session:
        lease = _placed(session)
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def an_attempt_whose_supervisor_died(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _placed(session)
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.record_supervisor(session, lease, dead_process())
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def slots_of_an_attempt_that_ended(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _placed(session)
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.end(session, lease, EndReason.CANCELLED)
    return lambda: job_rows.holders(site.sessions) == [None, None]


def an_attempt_elsewhere_whose_lease_expired(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _placed(session, "hb", gpus=4)
        leases.claim(session, lease.attempt_id, lease_s=-60)
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def an_attempt_elsewhere_that_nobody_took(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _placed(session, "hb", gpus=4)
        request_cancel(session, lease.job_id)
        long_ago = func.now() - timedelta(hours=1)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=long_ago))
    return _has_ended(site.sessions, lease)


def a_new_dataset(site: Site) -> Handled:
    with site.sessions.begin() as session:
        versions.register(session, NewDataset(name="chips", source="nowhere"), owner="ada")

    def is_looked_for() -> bool:
        with site.sessions() as session:
            return session.scalars(select(DatasetVersion)).one().unseen_by == ["ha"]

    return is_looked_for


def a_delivery(site: Site) -> Handled:
    with site.sessions.begin() as session:
        store_token(session, "hora_me", user="me", scope=Scope.SUBMIT)
        webhook = store.create(session, owner="me", url=site.url, events=["job.ended"], project=None)
        session.add(WebhookDelivery(webhook_id=webhook.id, event="ping", subject_id=webhook.id))

    def is_sent() -> bool:
        with site.sessions() as session:
            return session.scalars(select(WebhookDelivery)).one().delivered_at is not None

    return is_sent


def a_study_whose_jobs_have_ended(site: Site) -> Handled:
    with site.sessions.begin() as session:
        study = Study(id=new_id(), name="s", owner="me", base=job_rows.SPEC, grid={}, cells=[], repeats=1)
        session.add(study)

    def is_over() -> bool:
        with site.sessions() as session:
            return session.scalars(select(Study)).one().ended_at is not None

    return is_over


def a_search(site: Site) -> Handled:
    base = {"dataset": "digits", "model": "mlp", "epochs": 9, "early_stopping": None, "gpus": FITS_NOWHERE}
    search = {"trials": 1, "space": {"learning_rate": {"log": [1e-4, 0.1]}}}
    with site.sessions.begin() as session:
        store_token(session, "hora_me", user="me", scope=Scope.SUBMIT)
        write_search(session, StudySpec.model_validate({"base": base, "search": search}), owner="me")
    return lambda: job_rows.count(site.sessions, Job)


OF_THREADS: dict[str, Sequence[Callable[[Site], Handled]]] = {
    "agent": [
        a_queued_job, rows_about_a_queue_that_is_empty, slots_that_are_kept_for_no_job, an_attempt_whose_hint_was_lost,
        an_attempt_whose_supervisor_died, slots_of_an_attempt_that_ended, an_attempt_elsewhere_whose_lease_expired,
        an_attempt_elsewhere_that_nobody_took,
    ],
    "validator": [a_new_dataset],
    "notifier": [a_delivery, a_study_whose_jobs_have_ended],
    "searcher": [a_search],
}  # fmt: skip
EACH_WORK = pytest.mark.parametrize(
    ("name", "work"), [(name, work) for name, works in OF_THREADS.items() for work in works],
    ids=[work.__name__ for works in OF_THREADS.values() for work in works],
)  # fmt: skip


def _seen(site: Site) -> dict[str, list[bool]]:
    """What a lookout sees of the work of each thread."""
    with site.sessions() as session:
        return {
            name: [bool(session.scalar(select(watched.exist))) for watched in thread.watched()]
            for name, thread in site.threads.items()
        }


@contextmanager
def _running(*threads: PeriodicThread) -> Iterator[None]:
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.stop, wait_s=120)
        yield


@contextmanager
def _resting(lookout: Lookout, *threads: PeriodicThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run them. When it begins, each thread is in a rest that only the lookout ends."""
    monkeypatch.setattr(periodic, "_REST_S", LONG_S)
    monkeypatch.setattr(lookout_module, "_WATCHED_PERIODS", LONG_S)
    rests = [threading.Event() for _ in threads]
    for thread, rest in zip(threads, rests, strict=True):
        monkeypatch.setattr(thread, "_wait", _wait_telling(rest))
    with _running(*threads, lookout):
        for rest in rests:
            until(rest.is_set, what="a long rest")
        yield


def _wait_telling(rests: threading.Event) -> Callable[[threading.Event, float], bool]:
    def wait(event: threading.Event, seconds: float) -> bool:
        if seconds > 1:
            rests.set()
        return event.wait(seconds)

    return wait


@EACH_WORK
def test_a_pass_finds_what_the_lookout_sees(site: Site, name: str, work: Callable[[Site], Handled]) -> None:
    thread = site.threads[name]
    thread.once()
    nothing = _seen(site)
    assert not any(map(any, nothing.values()))
    handled = work(site)
    seen = _seen(site)
    (number,) = (number for number, is_seen in enumerate(seen[name]) if is_seen)

    def is_handled() -> object:
        thread.once()
        return handled()

    until(is_handled)
    if work not in (a_queued_job, a_search, a_new_dataset):  # which others, or later passes, go on with
        assert not _seen(site)[name][number]


@EACH_WORK
def test_each_work_is_noticed_by_a_thread_that_rests(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[Site], Handled]
) -> None:
    threads = list(site.threads.values())
    with _resting(Lookout(settings, threads), site.threads[name], monkeypatch=monkeypatch):
        until(work(site))


def test_slots_of_a_live_attempt_are_seen_for_the_sampler(site: Site) -> None:
    with site.sessions.begin() as session:
        lease = _placed(session)
    assert _seen(site)["sampler"] == [True]
    with site.sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.end(session, lease, EndReason.CANCELLED)
    assert _seen(site)["sampler"] == [False]


def test_threads_make_their_passes_while_the_database_does_not_answer_the_lookout(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lookout waits for a table that the agent does not read, until its patience ends."""
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with (
        _resting(lookout, agent, monkeypatch=monkeypatch),
        site.sessions.begin() as session,
    ):
        session.connection().exec_driver_sql("LOCK TABLE dataset_versions IN ACCESS EXCLUSIVE MODE")
        until(a_queued_job(site))


def test_threads_make_their_passes_without_a_lookout_that_can_connect(site: Site, settings: Settings) -> None:
    nowhere = settings.model_copy(update={"database_url": "postgresql:///hora?host=/nowhere"})
    with _running(site.threads["agent"], Lookout(nowhere, list(site.threads.values()))):
        until(a_queued_job(site))


def test_nobody_counts_on_a_lookout_that_died(site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(periodic, "_REST_S", LONG_S)
    agent = site.threads["agent"]
    lookout = Lookout(settings, list(site.threads.values()))
    with _running(agent, lookout):
        until(lambda: agent.is_watched)
        assert lookout.stop(wait_s=120)
        until(a_queued_job(site))


def test_a_connection_that_was_cut_is_replaced(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lookout = Lookout(settings, list(site.threads.values()))
    with _resting(lookout, site.threads["agent"], monkeypatch=monkeypatch):
        assert lookout._connection is not None
        _cut(settings.database_url, lookout._connection.info.backend_pid)
        until(lambda: "lookout: no answer, all threads look for themselves" in caplog.text)
        until(a_queued_job(site))


def _cut(address: str, pid: int) -> None:
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("SELECT pg_terminate_backend(%s)", [pid])


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


@contextmanager
def _closing(lookout: Lookout) -> Iterator[None]:
    try:
        yield
    finally:
        lookout.disconnect()


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
