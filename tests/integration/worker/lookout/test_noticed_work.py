"""The lookout wakes the threads that have work, without hints."""

from collections.abc import Callable

import pytest

from jobs.lifecycle import leases
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from tests.integration.worker.lookout.works import (
    EACH_WORK,
    Handled,
    Site,
    a_new_dataset,
    a_queued_job,
    a_search,
    placed,
    resting,
    seen_by,
)
from tests.waiting import until
from worker.lookout import Lookout


@EACH_WORK
def test_a_pass_finds_what_the_lookout_sees(site: Site, name: str, work: Callable[[Site], Handled]) -> None:
    thread = site.threads[name]
    thread.once()
    nothing = seen_by(site)
    assert not any(map(any, nothing.values()))
    handled = work(site)
    seen = seen_by(site)
    (number,) = (number for number, is_seen in enumerate(seen[name]) if is_seen)

    def is_handled() -> object:
        thread.once()
        return handled()

    until(is_handled)
    if work not in (a_queued_job, a_search, a_new_dataset):  # which others, or later passes, go on with
        assert not seen_by(site)[name][number]


@EACH_WORK
def test_each_work_is_noticed_by_a_thread_that_rests(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[Site], Handled]
) -> None:
    threads = list(site.threads.values())
    with resting(Lookout(settings, threads), site.threads[name], monkeypatch=monkeypatch):
        until(work(site))


def test_slots_of_a_live_attempt_are_seen_for_the_sampler(site: Site) -> None:
    with site.sessions.begin() as session:
        lease = placed(session)
    assert seen_by(site)["sampler"] == [True]
    with site.sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.end(session, lease, EndReason.CANCELLED)
    assert seen_by(site)["sampler"] == [False]
