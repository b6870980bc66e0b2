"""Which jobs a quota holds back. That it blocks no other jobs: `test_placement_properties`."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.scheduling.allowances import Allowances, Quota
from jobs.scheduling.contenders import Account, LiveAttempt, QueuedJob
from jobs.scheduling.placement import place_jobs
from jobs.scheduling.slots import HostSlots
from tests.slot_classes import alike
from tests.unit.jobs.scheduling import contending

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


def job(name: str, gpus: int, project: str = "p", **fields: Any) -> QueuedJob:
    return contending.job(name, gpus, account=Account(project, "u"), **fields)


def placed(
    queue: Sequence[QueuedJob], *hosts: HostSlots, quotas: Sequence[Quota], live: Sequence[LiveAttempt] = ()
) -> list[str]:
    return [one.job_id for one in place_jobs(queue, hosts, live, quotas).placements]


def test_job_that_waits_for_slots_keeps_its_share_of_the_quota() -> None:
    """Otherwise small jobs of its project would take the quota again each time that slots come free."""
    ends_soon = contending.live(1, {"h": 3}, name="x", ends_in_s=10.0)
    queue = [job("large", 4), job("small", 1)]
    hosts = [alike("h", "gpu", 1, 4), alike("other", "gpu", 2)]
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
    assert placed(queue, alike("h", "gpu", 8), quotas=[limit]) == expected


def test_jobs_held_back_by_a_quota_do_not_count_as_examined() -> None:
    queue = [job("a", 2), job("b", 2), job("c", 2), job("d", 1, "q")]
    assert place_jobs(queue, [alike("h", "gpu", 8)], [], [quota(max_slots=2)]).looked_at == 2


def test_allowance_refuses_all_jobs_of_a_project_after_the_first_refusal() -> None:
    allowances = Allowances([quota(max_slots=4, slots=1), quota("spent", max_slots=2, slots=2)])
    assert allowances.over == {"spent"}
    assert [allowances.take("p", slots) for slots in (2, 2, 1)] == [True, False, False]
    assert allowances.over == {"spent", "p"}
    assert allowances.take("unlimited", 4096)
