"""The tables of states and of end reasons, which `tests.unit.test_docs` compares with docs/states.md; remedies."""

import re

import pytest

from jobs.model.preemption import PreemptionCause
from jobs.model.remedies import EXPLANATIONS
from jobs.model.states import ACTIVE, COMPLETE, NEXT, SOURCES, TERMINAL, EndReason, Status, status_after

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
def test_end_reason_decides_the_next_status_and_a_requested_cancel_wins(reason: EndReason) -> None:
    def after(restarts: int, *, cancel_requested: bool = False) -> Status:
        return status_after(reason, cancel_requested=cancel_requested, restarts=restarts, max_restarts=2)

    assert reason.outcome.status in TERMINAL
    assert reason.outcome.retried or not reason.outcome.counts
    assert [after(restarts, cancel_requested=True) for restarts in (0, 3)] == [Status.CANCELLED] * 2
    if reason in COUNTED:
        expected = [Status.QUEUED, Status.QUEUED, Status.FAILED, Status.FAILED]
    elif reason in NOT_COUNTED:
        expected = [Status.QUEUED] * 4
    elif reason in DONE:
        expected = [Status.SUCCEEDED] * 4
    else:
        stops = (EndReason.CANCELLED, EndReason.DEPENDENCY, EndReason.IDLE)
        expected = [Status.CANCELLED if reason in stops else Status.FAILED] * 4
    assert [after(restarts) for restarts in range(4)] == expected


NO_FAULT = COMPLETE | {EndReason.CANCELLED, EndReason.PREEMPTED, EndReason.PAUSED}


@pytest.mark.parametrize("reason", EndReason)
def test_every_fault_has_a_remedy_and_nothing_else(reason: EndReason) -> None:
    explanation = EXPLANATIONS[reason]  # every reason has one
    assert (explanation.remedy is None) == (reason in NO_FAULT)
    assert reason.outcome.status != Status.FAILED or reason in NO_FAULT or explanation.remedy
    for text in (explanation.cause or "", explanation.remedy or "Nothing."):
        assert re.fullmatch(r"(hora|[A-Z]).*\.", text)


CAUSES = [
    (PreemptionCause.for_job("0abc"), "job 0abc", "to make room for job 0abc", ("job", "0abc", None)),
    (PreemptionCause.drained("ha"), "host ha is drained", "because host ha is drained", ("host_drained", None, "ha")),
    (PreemptionCause.shutting_down("h.lan"), "host h.lan is shutting down", "because host h.lan is shutting down",
     ("host_shutting_down", None, "h.lan")),
]  # fmt: skip


@pytest.mark.parametrize(("cause", "text", "explanation", "fields"), CAUSES)
def test_cause_is_written_and_read_as_its_stored_text_and_names_its_job_or_host(
    cause: PreemptionCause, text: str, explanation: str, fields: tuple[str, ...]
) -> None:
    assert str(cause) == text
    assert PreemptionCause.parse(text) == cause
    assert cause.explanation == explanation
    assert cause.to_json() == dict(zip(("kind", "job", "host"), fields, strict=True))


@pytest.mark.parametrize("text", ["", "job", "job a of priority 90", "host ha is well", "for a test"])
def test_unknown_text_is_refused_as_a_cause(text: str) -> None:
    with pytest.raises(ValueError, match="not a cause of a preemption"):
        PreemptionCause.parse(text)
