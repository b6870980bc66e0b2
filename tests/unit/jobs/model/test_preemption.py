"""Why attempts are preempted: as text in a row, as JSON in an event, and in words."""

import pytest

from jobs.model.preemption import PreemptionCause

CAUSES = [
    (PreemptionCause.for_job("0abc"), "job 0abc", "to make room for job 0abc", ("job", "0abc", None)),
    (PreemptionCause.drained("ha"), "host ha is drained", "because host ha is drained", ("host_drained", None, "ha")),
    (
        PreemptionCause.shutting_down("hb.lan"),
        "host hb.lan is shutting down",
        "because host hb.lan is shutting down",
        ("host_shutting_down", None, "hb.lan"),
    ),
]


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
