"""What the end of a job means, and what to do about it."""

import re

import pytest

from jobs.model.remedies import EXPLANATIONS
from jobs.model.states import COMPLETE, EndReason, Status

_NO_FAULT = COMPLETE | {EndReason.CANCELLED, EndReason.PREEMPTED, EndReason.PAUSED}


def test_every_end_reason_is_explained() -> None:
    assert EXPLANATIONS.keys() == set(EndReason)


@pytest.mark.parametrize("reason", EndReason)
def test_every_fault_has_a_remedy_and_nothing_else(reason: EndReason) -> None:
    explanation = EXPLANATIONS[reason]
    assert (explanation.remedy is None) == (reason in _NO_FAULT)
    assert reason.outcome.status != Status.FAILED or reason in _NO_FAULT or explanation.remedy
    for text in (explanation.cause or "", explanation.remedy or "Nothing."):
        assert re.fullmatch(r"(hora|[A-Z]).*\.", text)
