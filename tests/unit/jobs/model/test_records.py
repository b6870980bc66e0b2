"""The records of a rank are read back. A line that is not a record gives None and never an error.

The tests of the intake write a record of each kind, and look for what it changes.
"""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.records import StepEnded, parse_record

STEP = StepEnded(
    at=1.5, step=1, epoch=1, step_time_s=0.1, data_wait_s=0.01, allreduce_s=0.02, samples_per_s=1280.0,
    metrics={"loss": 2.3},
)  # fmt: skip


def test_a_record_is_read_back_from_its_line_even_if_the_loss_diverged() -> None:
    line = STEP.model_dump_json()
    assert parse_record(line) == parse_record(line.encode()) == STEP
    diverged = STEP.model_copy(update={"metrics": {"loss": math.nan, "gradient": math.inf}})
    metrics = parse_record(diverged.model_dump_json()).metrics
    assert (math.isnan(metrics["loss"]), math.isinf(metrics["gradient"])) == (True, True)


def changed(**values: Any) -> str:
    return json.dumps(STEP.model_dump() | values)


@pytest.mark.parametrize(
    "line",
    [
        b"", b" ", b"null", b"3", b"[]", b"{}", b'"step"', b"\x00\xff\xfe", b"Epoch 1/30", b"{" * 10_000,
        b'{"kind": "step"}', b'{"kind": "unheard_of", "at": 1}', b'{"kind": 7, "at": 1}',
        STEP.model_dump_json().encode()[:-1],  # killed while writing
        STEP.model_dump_json().encode()[1:],
        STEP.model_dump_json().encode() * 2,
        changed(surplus=1), changed(step="one"), changed(metrics={"loss": "low"}),
        # More than the database can hold, so that one damaged line cannot end a supervision:
        changed(step=2**63), changed(step=10**400), changed(epoch=2**31), changed(step=-1),
        changed(at=math.nan), changed(at=math.inf), changed(at=1e300), changed(at=-1),
        changed(metrics={"n" * 65: 1.0}), changed(metrics={"lo\x00ss": 1.0}),
    ],
    ids=lambda line: str(line)[:40],
)  # fmt: skip
def test_lines_that_are_not_records_are_ignored(line: bytes) -> None:
    assert parse_record(line) is None


@given(st.text() | st.binary())
def test_arbitrary_text_is_ignored_without_an_error(line: str | bytes) -> None:
    assert parse_record(line) is None
