"""A seed determines a whole round."""

from itertools import product

import pytest

from jobs.model.spec import spec_from
from tests.chaos.script import Harm, Moment, script_of
from tests.chaos.shares import shares_script_of


def test_the_same_seed_gives_the_same_round_and_another_seed_a_different_one() -> None:
    assert script_of(7) == script_of(7)
    assert script_of(7).jobs != script_of(8).jobs
    assert script_of(7).disturbances != script_of(8).disturbances


@pytest.mark.parametrize("jobs", [40, 20], ids=["by hand", "in the suite"])
def test_every_round_includes_all_kinds_of_harm_wishes_and_jobs(jobs: int) -> None:
    for seed in range(20):
        script = script_of(seed, jobs=jobs)
        assert {disturbance.harm for disturbance in script.disturbances} == set(Harm)
        wishes = [job.wish for job in script.jobs if job.wish is not None]
        assert {(wish.action, wish.moment) for wish in wishes} == set(product(("cancel", "pause"), Moment))
        pauses = [wish.resume_after_s for wish in wishes if wish.action == "pause"]
        assert (pauses.count(None), len(pauses) >= jobs // 7) == (1, True)
        assert {job.spec["gpus"] for job in script.jobs} == {1, 2}
        assert {90} < {job.spec["priority"] for job in script.jobs}
        assert any(job.submit_twice for job in script.jobs)


def test_planned_jobs_are_valid_and_are_submitted_at_points_that_the_round_reaches() -> None:
    script = script_of(1)
    for number, job in enumerate(script.jobs):
        assert spec_from(job.spec).name == job.name == f"chaos-{number:02d}"
        there_before = sum(earlier.at == 0.0 for earlier in script.jobs) / len(script.jobs)
        assert job.at < there_before


def test_users_who_share_have_alike_jobs_of_one_priority_and_one_user_comes_first() -> None:
    for seed in range(20):
        script = shares_script_of(seed, jobs=16, disturbances=len(Harm), harms=tuple(Harm))
        assert script == shares_script_of(seed, jobs=16, disturbances=len(Harm), harms=tuple(Harm))
        assert {disturbance.harm for disturbance in script.disturbances} == set(Harm)
        assert script.owners == {"ann", "ben", "cara"}
        assert {job.owner for job in script.jobs if job.at == 0.0} == {"ann"}
        kinds = {job.kind: {**job.spec, "name": ""} for job in script.jobs}
        assert all({**job.spec, "name": ""} == kinds[job.kind] for job in script.jobs)
        assert {spec_from(job.spec).priority for job in script.jobs} == {50}
