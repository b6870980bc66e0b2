"""Work of each thread, as rows; and threads that run or rest. Used by the tests of the lookout."""

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeVar

import pytest
from sqlalchemy import func, select, update
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
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from jobs.views.data import NewDataset
from jobs.views.studies import StudySpec
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.agents import dead_process
from tests.waiting import until
from worker import lookout as lookout_module
from worker import periodic
from worker.lookout import Lookout
from worker.periodic import PeriodicThread

LONG_S = 1e5  # longer than a test: only a lookout ends such a rest
FITS_NOWHERE = 8  # slots


@dataclass
class Site:
    """The threads of host ha, beside a host hb of which nobody looks after anything."""

    sessions: Sessions
    threads: dict[str, PeriodicThread]
    url: str  # that takes messages


Handled = Callable[[], object]
Row = TypeVar("Row")


def placed(session: Session, host: str = "ha", *, gpus: int = 2) -> Lease:
    """A job with an attempt on `host`, written in one transaction: no agent sees less than what a test writes."""
    job_id = job_rows.submit_once(session, spec_from(job_rows.SPEC | {"gpus": gpus})).job.id
    (lease,) = placing.place(session, [Placement(job_id, (Share(host, tuple(range(gpus))),))], lease_s=60)
    return lease


def _claimed(session: Session, host: str = "ha", *, gpus: int = 2, lease_s: float = 60) -> Lease:
    lease = placed(session, host, gpus=gpus)
    leases.claim(session, lease.attempt_id, lease_s=lease_s)
    return lease


def _has_ended(sessions: Sessions, lease: Lease) -> Handled:
    return lambda: job_rows.the_attempt(sessions, lease).ended_at is not None


def _only(site: Site, table: type[Row]) -> Row:
    """The one row of a table, as it is now."""
    with site.sessions() as session:
        return session.scalars(select(table)).one()


def a_queued_job(site: Site) -> Handled:
    job_id = job_rows.a_job(site.sessions, gpus=4)
    return lambda: job_rows.the_job(site.sessions, job_id).attempt > 0


def rows_about_a_queue_that_is_empty(site: Site) -> Handled:
    nobody = {"used_slot_s": 0, "used_part": 0, "entitled_part": 1, "is_over": False}
    with site.sessions.begin() as session:
        session.add(AccountStanding(project="default", user_name="me", **nobody))
    return lambda: not job_rows.count(site.sessions, AccountStanding)


def slots_that_are_kept_for_no_job(site: Site) -> Handled:
    change(site.sessions, update(Host).where(Host.name == "hb").values(kept_for=new_id()))
    return lambda: not any(job_rows.reservations(site.sessions).values())


def an_attempt_whose_hint_was_lost(site: Site) -> Handled:
    """It is cancelled before it begins, so that no supervisor is left of this test."""
    with site.sessions.begin() as session:
        lease = placed(session)
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def an_attempt_whose_supervisor_died(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _claimed(session)
        leases.record_supervisor(session, lease, dead_process())
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def slots_of_an_attempt_that_ended(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _claimed(session)
        leases.end(session, lease, EndReason.CANCELLED)
    return lambda: job_rows.holders(site.sessions) == [None, None]


def an_attempt_elsewhere_whose_lease_expired(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = _claimed(session, "hb", gpus=4, lease_s=-60)
        request_cancel(session, lease.job_id)
    return _has_ended(site.sessions, lease)


def an_attempt_elsewhere_that_nobody_took(site: Site) -> Handled:
    with site.sessions.begin() as session:
        lease = placed(session, "hb", gpus=4)
        request_cancel(session, lease.job_id)
        long_ago = func.now() - timedelta(hours=1)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=long_ago))
    return _has_ended(site.sessions, lease)


def a_new_dataset(site: Site) -> Handled:
    write(site.sessions, versions.register, NewDataset(name="chips", source="nowhere"), owner="ada")
    return lambda: _only(site, DatasetVersion).unseen_by == ["ha"]


def a_delivery(site: Site) -> Handled:
    with site.sessions.begin() as session:
        store_token(session, "hora_me", user="me", scope=Scope.SUBMIT)
        webhook = store.create(session, owner="me", url=site.url, events=["job.ended"], project=None)
        session.add(WebhookDelivery(webhook_id=webhook.id, event="ping", subject_id=webhook.id))
    return lambda: _only(site, WebhookDelivery).delivered_at is not None


def a_study_whose_jobs_have_ended(site: Site) -> Handled:
    with site.sessions.begin() as session:
        study = Study(id=new_id(), name="s", owner="me", base=job_rows.SPEC, grid={}, cells=[], repeats=1)
        session.add(study)
    return lambda: _only(site, Study).ended_at is not None


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


def seen_by(site: Site) -> dict[str, list[bool]]:
    """What a lookout sees of the work of each thread."""
    with site.sessions() as session:
        return {
            name: [bool(session.scalar(select(watched.exist))) for watched in thread.watched()]
            for name, thread in site.threads.items()
        }


@contextmanager
def running(*threads: PeriodicThread) -> Iterator[None]:
    with ExitStack() as stack:
        for thread in threads:
            thread.start()
            stack.callback(thread.stop, wait_s=120)
        yield


@contextmanager
def resting(lookout: Lookout, *threads: PeriodicThread, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Run them. When it begins, each thread is in a rest that only the lookout ends."""
    monkeypatch.setattr(periodic, "_REST_S", LONG_S)
    monkeypatch.setattr(lookout_module, "_WATCHED_PERIODS", LONG_S)
    rests = [threading.Event() for _ in threads]
    for thread, rest in zip(threads, rests, strict=True):
        monkeypatch.setattr(thread, "_wait", _wait_telling(rest))
    with running(*threads, lookout):
        for rest in rests:
            until(rest.is_set, what="a long rest")
        yield


def _wait_telling(rests: threading.Event) -> Callable[[threading.Event, float], bool]:
    def wait(event: threading.Event, seconds: float) -> bool:
        if seconds > 1:
            rests.set()
        return event.wait(seconds)

    return wait
