"""A supervisor of a script: how it ends, when it stalls, and what is left of it."""

from typing import Any

import pytest

from jobs.db.engine import Sessions
from jobs.lifecycle import store
from jobs.model.states import EndReason, Status
from tests.integration.jobs import code_rows, job_rows
from tests.integration.worker.supervision.conftest import Run, Supervised, stored_rows
from tests.waiting import until


@pytest.fixture
def script(sessions: Sessions) -> dict[str, Any]:
    """The fields of a script's spec."""
    return {"code": code_rows.an_archive(sessions, b"code"), "command": ["python", "train.py"]}


def status(supervised: Supervised) -> Status:
    return job_rows.the_job(supervised.sessions, supervised.lease.job_id).status


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
    assert status(supervised) is expected_status
    assert supervised.attempt.error == "the script exited with 1: ValueError: no such column"
    assert not supervised.paths.code.exists(), "its copy of the code"


def test_a_script_that_fails_because_it_is_asked_to_stop_is_paused(run: Run, script: dict[str, Any]) -> None:
    supervised = run("script fails when stopped", **script)
    until(lambda: stored_rows(supervised.sessions), what="a report")
    with supervised.sessions.begin() as session:
        store.pause(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.PAUSED
    assert status(supervised) is Status.QUEUED


def test_a_script_that_reports_nothing_does_not_stall(run: Run, script: dict[str, Any]) -> None:
    assert run("script without reports", stall_timeout_s=0.5, **script).wait_for_end() is EndReason.COMPLETED


def test_a_script_that_reported_once_stalls(run: Run, script: dict[str, Any]) -> None:
    assert run("script stalls", stall_timeout_s=0.5, **script).wait_for_end() is EndReason.STALLED
