"""Which jobs a quota holds back, and that it blocks no other jobs."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduling.allowances import Allowances, Quota
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.placement import place_jobs
from jobs.scheduling.slots import HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike

RENEWS_AT = datetime(2030, 2, 1, tzinfo=UTC)


def quota(
    project: str = "p",
    max_slots: int | None = None,
    slots: int = 0,
    *,
    hours: tuple[float, float | None] = (0, None),
    storage: tuple[float, float | None] = (0, None),
) -> Quota:
    return Quota(project, max_slots, hours[1], slots, hours[0], RENEWS_AT, storage[1], storage[0])


def host(name: str, free: int, capacity: int | None = None) -> HostSlots:
    return alike(name, "gpu", free, capacity)


def job(
    name: str,
    gpus: int,
    project: str = "p",
    priority: int = 50,
    estimate_s: float | None = None,
    keeps_files: bool = False,
) -> QueuedJob:
    return QueuedJob(name, (-priority, 0.0, name), SlotRequest(gpus), estimate_s, Account(project, "u"), keeps_files)


def placed(
    queue: Sequence[QueuedJob], *hosts: HostSlots, quotas: Sequence[Quota], live: Sequence[LiveAttempt] = ()
) -> list[str]:
    return [one.job_id for one in place_jobs(queue, hosts, live, quotas).placements]


def test_job_that_waits_for_slots_keeps_its_share_of_the_quota() -> None:
    """Otherwise small jobs of its project would take the quota again each time that slots come free."""
    ends_soon = LiveAttempt(1, (-50, 0.0, "x"), {SlotClass("h", "gpu"): 3}, 10.0)
    queue = [job("large", 4), job("small", 1)]
    hosts = [host("h", 1, 4), host("other", 2)]
    decided = place_jobs(queue, hosts, [ends_soon], [quota(max_slots=4)])
    assert decided.placements == []
    assert [one.job_id for one in decided.reservations] == ["large"]
    assert placed(queue, *hosts, live=[ends_soon], quotas=[quota(max_slots=5)]) == ["small"]


KEEPS_FILES = [job("new", 2), job("begun", 2, keeps_files=True), job("last", 1), job("other", 1, "q")]


@pytest.mark.parametrize(
    ("queue", "limit", "expected"),
    [
        ([job("a", 2), job("b", 1), job("c", 1)], quota(max_slots=4, slots=1), ["a", "b"]),
        ([job("a", 1)], quota(hours=(100.0, 100.0)), []),
        ([job("a", 1)], quota(hours=(99.9, 100.0)), ["a"]),
        ([job("a", 1)], quota(hours=(0.0, 0.0)), []),
        (KEEPS_FILES, quota(max_slots=2, storage=(3.0, 3.0)), ["begun", "other"]),
        (KEEPS_FILES, quota(max_slots=2, storage=(2.9, 3.0)), ["new", "other"]),
        (KEEPS_FILES, quota(hours=(9.0, 9.0), storage=(3.0, 3.0)), ["other"]),
        ([job("larger than the quota", 4), job("small", 2)], quota(max_slots=2), ["small"]),
        ([job("larger than every host", 9), job("small", 2)], quota(max_slots=9), ["small"]),
    ],
)
def test_a_project_gets_all_that_its_quota_allows_and_no_more(
    queue: list[QueuedJob], limit: Quota, expected: list[str]
) -> None:
    assert placed(queue, host("h", 8), quotas=[limit]) == expected


def test_jobs_held_back_by_a_quota_do_not_count_as_examined() -> None:
    queue = [job("a", 2), job("b", 2), job("c", 2), job("d", 1, "q")]
    assert place_jobs(queue, [host("h", 8)], [], [quota(max_slots=2)]).looked_at == 2


def test_allowance_refuses_all_jobs_of_a_project_after_the_first_refusal() -> None:
    allowances = Allowances([quota(max_slots=4, slots=1), quota("spent", max_slots=2, slots=2)])
    assert allowances.over == {"spent"}
    assert [allowances.take("p", slots) for slots in (2, 2, 1)] == [True, False, False]
    assert allowances.over == {"spent", "p"}
    assert allowances.take("unlimited", 4096)


QUOTAS = st.tuples(
    st.builds(quota, st.just("p"), st.integers(0, 8), st.integers(0, 4)),
    st.builds(
        quota,
        st.just("q"),
        st.none() | st.integers(0, 8),
        hours=st.sampled_from([(0.0, 5.0), (5.0, 5.0)]),
        storage=st.sampled_from([(0.0, 5.0), (5.0, 5.0)]),
    ),
)
HOSTS = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 4)), min_size=1, max_size=4).map(
    lambda found: [host(f"h{number}", free, free + busy) for number, (free, busy) in enumerate(found)]
)
ESTIMATES = st.none() | st.sampled_from([1.0, 5.0, 9.0])
JOBS = st.lists(
    st.tuples(st.integers(1, 8), st.sampled_from(["p", "q", "free"]), st.integers(0, 3), ESTIMATES, st.booleans()),
    max_size=14,
).map(lambda found: sorted((job(f"j{n:02}", *one) for n, one in enumerate(found)), key=lambda job: job.order))


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]]:
    """A queue, hosts, and on each host that is not free an attempt that holds all its leased slots."""
    hosts = draw(HOSTS)
    live = [
        LiveAttempt(number, (-draw(st.integers(0, 3)), 0.0, f"a{number}"), {slots.of: held}, draw(ESTIMATES))
        for number, one in enumerate(hosts)
        for slots in one.classes
        if (held := slots.capacity - len(slots.free))
    ]
    return draw(JOBS), hosts, live


@settings(max_examples=150)
@given(clusters(), QUOTAS)
def test_no_quota_is_exceeded_and_no_job_passes_a_held_back_job_of_its_project(
    queue_and_cluster: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]], quotas: tuple[Quota, ...]
) -> None:
    queue, hosts, live = queue_and_cluster
    cluster = Cluster(hosts)
    gpus_by_job = {placement.job_id: placement.gpus for placement in place_jobs(queue, hosts, live, quotas).placements}
    for limit in quotas:
        jobs = [job for job in queue if job.project == limit.project]
        held_back = {job.job_id for job in jobs if limit.is_full and not job.keeps_files}
        assert held_back.isdisjoint(gpus_by_job)
        placed_gpus = sum(gpus_by_job.get(job.job_id, 0) for job in jobs)
        assert not (limit.is_used_up and placed_gpus)
        if limit.max_slots is None:
            continue
        free_slots = max(limit.max_slots - limit.slots, 0)
        assert placed_gpus <= free_slots
        queued_gpus = 0
        for job in jobs:
            if job.job_id in held_back:
                continue
            if job.request.gpus > limit.max_slots or cluster.attainable(job.request) is None:
                assert job.job_id not in gpus_by_job
                continue
            queued_gpus += job.request.gpus
            assert queued_gpus <= free_slots or job.job_id not in gpus_by_job


@settings(max_examples=150)
@given(clusters(), QUOTAS)
def test_a_job_held_back_by_its_quota_does_not_block_others(
    queue_and_cluster: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]], quotas: tuple[Quota, ...]
) -> None:
    queue, hosts, live = queue_and_cluster
    cluster, allowances = Cluster(hosts), Allowances(quotas)
    within = [
        one
        for one in queue
        if cluster.attainable(one.request)
        and allowances.take(one.project, one.request.gpus, keeps_files=one.keeps_files)
    ]
    decided, without = place_jobs(queue, hosts, live, quotas), place_jobs(within, hosts, live)
    assert decided.placements == without.placements
    assert decided.preemptions == without.preemptions
    assert decided.kept_for == without.kept_for
