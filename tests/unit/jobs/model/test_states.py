"""The table of states and the table of end reasons. `tests.unit.test_docs` compares both with docs/states.md."""

import pytest

from jobs.model.states import ACTIVE, NEXT, SOURCES, TERMINAL, EndReason, Status, status_after

NOT_COUNTED = {
    EndReason.HOST_LOST, EndReason.LEASE_EXPIRED, EndReason.PREEMPTED, EndReason.PAUSED, EndReason.NO_SPACE,
    EndReason.NO_STORE,
}  # fmt: skip
COUNTED = {EndReason.RANK_FAILED, EndReason.STALLED, EndReason.LAUNCH_FAILED}
DONE = {EndReason.COMPLETED, EndReason.EARLY_STOPPED, EndReason.PRUNED}


def test_sources_is_the_inverse_of_next() -> None:
    assert NEXT.keys() == set(Status) == SOURCES.keys()
    assert {Status.SUCCEEDED, Status.FAILED, Status.CANCELLED} == TERMINAL
    assert {Status.LAUNCHING, Status.RUNNING} == ACTIVE
    for at in Status:
        for to in Status:
            assert (to in NEXT[at]) == (at in SOURCES[to])


@pytest.mark.parametrize("reason", EndReason)
def test_every_end_reason_has_a_terminal_status_and_counts_only_if_retried(reason: EndReason) -> None:
    assert reason.outcome.status in TERMINAL
    assert reason.outcome.retried or not reason.outcome.counts


@pytest.mark.parametrize("reason", EndReason)
@pytest.mark.parametrize("restarts", [0, 3])
def test_a_requested_cancel_wins_over_every_reason(reason: EndReason, restarts: int) -> None:
    assert status_after(reason, cancel_requested=True, restarts=restarts, max_restarts=3) is Status.CANCELLED


@pytest.mark.parametrize("reason", EndReason)
def test_end_reason_decides_the_next_status(reason: EndReason) -> None:
    after = status_after(reason, cancel_requested=False, restarts=0, max_restarts=1)
    if reason in COUNTED | NOT_COUNTED:
        assert after is Status.QUEUED
    elif reason in DONE:
        assert after is Status.SUCCEEDED
    elif reason in (EndReason.CANCELLED, EndReason.DEPENDENCY, EndReason.IDLE):
        assert after is Status.CANCELLED
    else:
        assert after is Status.FAILED


@pytest.mark.parametrize("reason", sorted(COUNTED))
def test_job_fails_when_its_counted_restarts_reach_the_limit(reason: EndReason) -> None:
    def after(restarts: int) -> Status:
        return status_after(reason, cancel_requested=False, restarts=restarts, max_restarts=2)

    assert [after(0), after(1), after(2), after(3)] == [Status.QUEUED] * 2 + [Status.FAILED] * 2


@pytest.mark.parametrize("reason", sorted(NOT_COUNTED))
def test_end_reason_that_does_not_count_requeues_the_job_beyond_the_limit(reason: EndReason) -> None:
    assert status_after(reason, cancel_requested=False, restarts=9, max_restarts=0) is Status.QUEUED
