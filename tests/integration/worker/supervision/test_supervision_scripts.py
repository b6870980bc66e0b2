"""A supervisor of a script: how it ends, when it stalls, and what is left of it. And a supervisor of a trial."""

from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.db.engine import Sessions
from jobs.db.tables import Study
from jobs.lifecycle import store
from jobs.lifecycle.store import new_id
from jobs.lifecycle.submission import StudyPlace
from jobs.model.states import EndReason, Status
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, MetricRow
from tests.integration.jobs import code_rows, job_rows
from tests.integration.worker.supervision.conftest import Run, stored_rows
from tests.waiting import until


@pytest.fixture
def script(sessions: Sessions) -> dict[str, Any]:
    """The fields of a script's spec."""
    return {"code": code_rows.an_archive(sessions, b"code"), "command": ["python", "train.py"]}


@pytest.mark.parametrize(
    ("mood", "reason", "expected_status"),
    [
        ("script fails", EndReason.SCRIPT_FAILED, Status.FAILED),
        ("script saves and fails", EndReason.RANK_FAILED, Status.QUEUED),
    ],
)
def test_a_script_that_fails_says_the_last_line_of_its_error_and_is_restarted_from_a_checkpoint_only(
    run: Run, script: dict[str, Any], mood: str, reason: EndReason, expected_status: Status
) -> None:
    supervised = run(mood, **script)
    supervised.paths.code.mkdir()
    assert supervised.wait_for_end() is reason
    assert supervised.job.status is expected_status
    assert supervised.attempt.error == "the script exited with 1: ValueError: no such column"
    assert not supervised.paths.code.exists(), "its copy of the code"


def test_a_script_that_fails_because_it_is_asked_to_stop_is_paused(run: Run, script: dict[str, Any]) -> None:
    supervised = run("script fails when stopped", **script)
    until(lambda: stored_rows(supervised.sessions), what="a report")
    supervised.ask(store.pause)
    assert supervised.wait_for_end() is EndReason.PAUSED
    assert supervised.job.status is Status.QUEUED


@pytest.mark.parametrize(
    ("mood", "reason"),
    [("script without reports", EndReason.COMPLETED), ("script stalls", EndReason.STALLED)],
)
def test_a_script_stalls_only_after_a_report(run: Run, script: dict[str, Any], mood: str, reason: EndReason) -> None:
    assert run(mood, stall_timeout_s=0.5, **script).wait_for_end() is reason


SEARCH = {
    "method": "random", "trials": 2, "space": {"learning_rate": [0.1, 0.2]},
    "prune": {"name": "asha", "min_epochs": 1},
}  # fmt: skip


def second_trial(sessions: Sessions, *, first_val_accuracy: float) -> StudyPlace:
    """The place of the second trial of a search. The first one has reached this value in its first epoch."""
    study_id = new_id()
    fields = {"base": job_rows.SPEC, "grid": {}, "search": SEARCH, "repeats": 1, "cells": [{"learning_rate": 0.1}] * 2}
    with sessions.begin() as session:
        session.add(Study(id=study_id, name="s", owner="me", **fields))
    first = job_rows.a_job(sessions, study=StudyPlace(study_id, 0, 0, {}))
    point = MetricRow(first, "val_accuracy", ALL_RANKS, 1, 1, 1, datetime.now(UTC), first_val_accuracy)
    with sessions.begin() as session:
        ingest.store_metrics(session, [point])
        store.pause(session, first)
    return StudyPlace(study_id, 1, 0, {})


def test_a_trial_that_is_worse_than_another_ends_without_a_worker(run: Run, sessions: Sessions) -> None:
    supervised = run("one epoch", study=second_trial(sessions, first_val_accuracy=0.9))
    assert supervised.wait_for_end() is EndReason.PRUNED
    assert supervised.job.pruned_at_epoch == 1


@pytest.mark.parametrize("is_judged", [True, False])
def test_a_trial_that_is_better_or_cannot_be_judged_goes_on(run: Run, sessions: Sessions, is_judged: bool) -> None:
    place = second_trial(sessions, first_val_accuracy=0.4 if is_judged else 0.9)
    supervised = run("one epoch", study=place)
    if not is_judged:
        with sessions.begin() as session:
            session.get_one(Study, place.id).cells = []
    until(lambda: (supervised.job.progress or {}).get("step", 0) > 30, what="steps after its epoch")
    assert ("was not judged" in supervised.paths.supervisor_log.read_text()) != is_judged
    supervised.ask(store.pause)
    assert supervised.wait_for_end() is EndReason.PAUSED
    assert supervised.job.pruned_at_epoch is None
