"""A seed determines a whole round, and the checks after it find what is wrong in it."""

from itertools import product

import pytest

from jobs.model.spec import spec_from
from tests.chaos.script import Harm, Moment, script_of
from tests.chaos.verdict import broken_curve, different_curves, disk_faults_that_count


def test_a_curve_with_missing_or_repeated_epochs_or_that_differs_from_its_kind_is_reported() -> None:
    assert broken_curve("job", 3, [{"rank": -1, "x": [1, 2, 3]}]) == []
    assert "epochs [2] of 3 are missing" in broken_curve("job", 3, [{"rank": -1, "x": [1, 3]}])[0]
    assert "[2] are there twice" in broken_curve("job", 3, [{"rank": -1, "x": [1, 2, 2, 3]}])[0]
    assert broken_curve("job", 3, []) != []
    kind, other = ("mlp", 1), ("mlp", 2)
    same = [("a", kind, [0.5, 0.4]), ("b", kind, [0.5, 0.4, 0.3]), ("c", kind, [0.5]), ("d", other, [0.9])]
    assert different_curves(same) == []
    (found,) = different_curves([*same, ("e", kind, [0.5, 0.5])])
    assert found.startswith("e's val_loss after epoch 2 is 0.5")


def test_a_restart_that_a_full_disk_used_up_is_reported() -> None:
    attempt = {"number": 2, "end_reason": "launch_failed", "error": "[Errno 28] No space left on device"}
    assert "job.2 used up a restart on a full disk" in disk_faults_that_count("job", [attempt])[0]
    free = {**attempt, "end_reason": "host_lost"}
    other = {**attempt, "error": "no rank started"}
    assert disk_faults_that_count("job", [free, other, {**attempt, "end_reason": "completed", "error": None}]) == []


@pytest.mark.parametrize("jobs", [40, 20], ids=["by hand", "in the suite"])
def test_every_round_includes_all_kinds_of_harm_wishes_and_jobs_and_its_seed_determines_it(jobs: int) -> None:
    for seed in range(20):
        script = script_of(seed, jobs=jobs)
        assert script == script_of(seed, jobs=jobs) != script_of(seed + 1, jobs=jobs)
        assert {disturbance.harm for disturbance in script.disturbances} == set(Harm)
        wishes = [job.wish for job in script.jobs if job.wish is not None]
        assert {(wish.action, wish.moment) for wish in wishes} == set(product(("cancel", "pause"), Moment))
        assert [wish.resume_after_s for wish in wishes if wish.action == "pause"].count(None) == 1
        assert {job.spec["gpus"] for job in script.jobs} == {1, 2}
        assert {90} < {job.spec["priority"] for job in script.jobs}
        assert any(job.submit_twice for job in script.jobs)
        for job in script.jobs:
            assert spec_from(job.spec).name == job.name
            assert job.at < sum(other.at == 0.0 for other in script.jobs) / jobs, "the round never gets there"
