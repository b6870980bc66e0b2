"""Why attempts are preempted: as text in a row, as JSON in an event, and in words."""

import pytest

from jobs.model.preemption import PreemptionCause, PreemptionKind

CAUSES = [
    (PreemptionCause.for_job("0abc"), "job 0abc", "to make room for job 0abc"),
    (PreemptionCause.drained("ha"), "host ha is drained", "because host ha is drained"),
    (PreemptionCause.shutting_down("hb.lan"), "host hb.lan is shutting down", "because host hb.lan is shutting down"),
]


@pytest.mark.parametrize(("cause", "text", "explanation"), CAUSES)
def test_cause_is_written_and_read_as_its_stored_text(cause: PreemptionCause, text: str, explanation: str) -> None:
    assert str(cause) == text
    assert PreemptionCause.parse(text) == cause
    assert cause.explanation == explanation


def test_cause_names_its_job_or_host_in_json() -> None:
    assert PreemptionCause.for_job("0abc").to_json() == {"kind": "job", "job": "0abc", "host": None}
    assert PreemptionCause.drained("ha").to_json() == {"kind": "host_drained", "job": None, "host": "ha"}
    assert PreemptionCause.shutting_down("ha").kind is PreemptionKind.HOST_SHUTTING_DOWN


@pytest.mark.parametrize("text", ["", "job", "job a of priority 90", "host ha is well", "for a test"])
def test_unknown_text_is_refused_as_a_cause(text: str) -> None:
    with pytest.raises(ValueError, match="not a cause of a preemption"):
        PreemptionCause.parse(text)
