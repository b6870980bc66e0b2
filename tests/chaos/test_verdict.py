"""The checks after a round find what is wrong in it."""

from typing import Any

from tests.chaos.verdict import (
    broken_curve,
    different_curves,
    different_figures,
    disk_faults_that_count,
    forbidden_moves,
    lost_attempts,
    slots_not_free,
)


def _history(*kinds: str, attempt: int = 1, **data: object) -> list[dict[str, Any]]:
    return [{"id": i, "kind": kind, "attempt": attempt, "data": data} for i, kind in enumerate(kinds)]


def test_a_history_that_breaks_the_table_of_states_is_reported() -> None:
    whole = _history("submitted", "placed", "launched", "rank_started", "rank_started", "epoch_ended", "attempt_ended",
                     "ended", status="succeeded")  # fmt: skip
    assert forbidden_moves("job", {"status": "succeeded"}, whole) == []
    assert forbidden_moves("job", {"status": "failed"}, whole) == ["job is failed, its history ends in succeeded"]
    never_started = _history("submitted", "placed", "ended", status="succeeded")
    assert "from launching to succeeded" in forbidden_moves("job", {"status": "succeeded"}, never_started)[0]
    twice = _history("submitted", "placed", "rank_started", "requeued", "requeued")
    assert "from queued to queued" in forbidden_moves("job", {"status": "queued"}, twice)[0]


def test_a_curve_with_missing_or_repeated_epochs_is_reported() -> None:
    assert broken_curve("job", 3, [{"rank": -1, "x": [1, 2, 3]}]) == []
    assert "epochs [2] of 3 are missing" in broken_curve("job", 3, [{"rank": -1, "x": [1, 3]}])[0]
    assert "[2] are there twice" in broken_curve("job", 3, [{"rank": -1, "x": [1, 2, 2, 3]}])[0]
    assert broken_curve("job", 3, []) != []


def test_a_curve_that_differs_from_others_of_its_kind_is_reported() -> None:
    kind, other = ("mlp", 1), ("mlp", 2)
    same = [("a", kind, [0.5, 0.4]), ("b", kind, [0.5, 0.4, 0.3]), ("c", kind, [0.5]), ("d", other, [0.9])]
    assert different_curves(same) == []
    (found,) = different_curves([*same, ("e", kind, [0.5, 0.5])])
    assert found.startswith("e's val_loss after epoch 2 is 0.5")


def test_a_figure_that_differs_in_its_last_digit_or_is_missing_is_reported() -> None:
    assert different_figures("job", {"loss": 0.1}, {"loss": 0.1}) == []
    assert (
        "job's loss is 0.1; undisturbed it is 0.1000" in different_figures("job", {"loss": 0.1}, {"loss": 0.1000001})[0]
    )
    assert different_figures("job", {}, {"loss": 0.1}) != []
    assert different_figures("job", {"loss": 0.1}, {}) != []


def test_attempts_that_are_missing_or_have_no_end_are_reported() -> None:
    first, third = ({"number": number, "ended_at": "2030-01-01T00:00:00Z"} for number in (1, 3))
    assert lost_attempts("job", {"attempt": 1}, [first]) == []
    assert lost_attempts("job", {"attempt": 3}, [first, third]) == ["job is at attempt 3 and has the attempts [1, 3]"]
    assert lost_attempts("job", {"attempt": 1}, [{**first, "ended_at": None}]) == ["job.1 has no end"]


def test_a_slot_that_is_not_free_is_named() -> None:
    slots = [{"index": 0, "state": "free"}, {"index": 1, "state": "quarantined", "job_id": "job"}]
    assert slots_not_free([{"name": "here", "slots": slots}]) == ["slot 1 of here is quarantined (job)"]


def test_a_restart_that_a_full_disk_used_up_is_reported() -> None:
    attempt = {"number": 2, "end_reason": "launch_failed", "error": "[Errno 28] No space left on device"}
    assert "job.2 used up a restart on a full disk" in disk_faults_that_count("job", [attempt])[0]
    free = {**attempt, "end_reason": "host_lost"}
    other = {**attempt, "error": "no rank started"}
    assert disk_faults_that_count("job", [free, other, {**attempt, "end_reason": "completed", "error": None}]) == []
