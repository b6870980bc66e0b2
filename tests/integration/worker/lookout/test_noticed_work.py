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
def test_each_work_is_noticed_by_a_thread_that_rests_and_is_seen_until_it_is_done(
    site: Site, settings: Settings, monkeypatch: pytest.MonkeyPatch, name: str, work: Callable[[Site], Handled]
) -> None:
    site.threads[name].once()
    assert not any(map(any, seen_by(site).values()))
    with resting(Lookout(settings, list(site.threads.values())), site.threads[name], monkeypatch=monkeypatch):
        until(work(site))
    if work not in (a_queued_job, a_search, a_new_dataset):  # which others, or later passes, go on with
        until(lambda: not any(seen_by(site)[name]), what="nothing to see")


def test_slots_of_a_live_attempt_are_seen_for_the_sampler(site: Site) -> None:
    with site.sessions.begin() as session:
        lease = placed(session)
    assert seen_by(site)["sampler"] == [True]
    with site.sessions.begin() as session:
        leases.claim(session, lease.attempt_id, lease_s=60)
        leases.end(session, lease, EndReason.CANCELLED)
    assert seen_by(site)["sampler"] == [False]
