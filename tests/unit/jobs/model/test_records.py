"""The records of a rank are read back. A line that is not a record gives None and never an error."""

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.model.launch import Launch
from jobs.model.plan import resolve_plan
from jobs.model.records import (
    CheckpointSaved,
    DataOpened,
    EpochEnded,
    PhaseEnded,
    Planned,
    ProbeEnded,
    ProbeFindings,
    ProbeMeasured,
    ProbePoint,
    ProbeStepped,
    RankEpochEnded,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    Summarized,
    Summary,
    parse_record,
)
from jobs.model.spec import spec_from
from jobs.model.states import EndReason

SPEC = spec_from({"dataset": "digits", "gpus": 2})
SUMMARY = Summary(
    best_epoch=3,
    epochs_run=6,
    val_accuracy=0.97,
    val_loss=0.1,
    train_samples_per_s=9000.0,
    wall_s=12.5,
    setup_s=3.0,
    parameters=61706,
    trainable_parameters=61706,
    model_bytes=246824,
    after_best_share=0.5,
    stopped_early=True,
)
STEP = StepEnded(
    at=1.5,
    step=1,
    epoch=1,
    step_time_s=0.1,
    data_wait_s=0.01,
    allreduce_s=0.02,
    samples_per_s=1280.0,
    metrics={"loss": 2.3},
)
DATA = DataOpened(
    at=1.0,
    format="images",
    shape=[96, 96, 3],
    classes=["cracked", "whole"],
    train=900,
    validation=100,
    test=0,
    damaged=1,
    damaged_files=["whole/7.png"],
)


@pytest.mark.parametrize(
    "record",
    [
        RankStarted(at=1.0, rank=1, local_rank=1, host="ha", pid=42),
        PhaseEnded(at=1.0, name="import", duration_s=2.5),
        Planned(at=1.0, plan=resolve_plan(SPEC, None), start_epoch=2, start_step=20),
        DATA,
        STEP,
        ProbeStepped(at=1.0, per_gpu_batch=64, steps=9),
        ProbeMeasured(at=1.0, point=ProbePoint(per_gpu_batch=64, global_batch=128, fits=False)),
        ProbeEnded(at=1.0, findings=ProbeFindings(points=[], ended_by="data", why="No batch was measured.")),
        RankEpochEnded(
            at=1.0, epoch=1, step=9, step_time_p50_s=0.1, step_time_p95_s=0.2, data_wait_s=0.3, allreduce_s=0.4
        ),
        EpochEnded(at=1.0, epoch=1, step=9, wall_s=1.0, samples_per_s=9.0, learning_rate=0.1, metrics={"loss": 1.0}),
        CheckpointSaved(at=1.0, epoch=1, step=10, path="/runs/x", duration_s=0.1),
        Summarized(at=1.0, summary=SUMMARY),
        RankExited(at=1.0, reason=EndReason.BAD_DATA, message="no such file: Zürich"),
    ],
    ids=lambda record: record.kind,
)  # fmt: skip
def test_every_kind_of_record_is_read_back(record: Record) -> None:
    line = record.model_dump_json()
    assert parse_record(line) == record
    assert parse_record(line.encode()) == record
    assert "\n" not in line


def test_a_diverged_loss_is_read_back_and_so_is_the_launch_file() -> None:
    diverged = STEP.model_copy(update={"metrics": {"loss": math.nan, "gradient": math.inf}})
    metrics = parse_record(diverged.model_dump_json()).metrics
    assert (math.isnan(metrics["loss"]), math.isinf(metrics["gradient"])) == (True, True)
    launch = Launch(
        job_id="j", attempt=1, spec=SPEC, gpus=2, device="cpu", threads_per_rank=1, data_roots=["/data"],
        cache_dir="/k", weights_dir="/w", job_weights="/runs/k/model.weights.h5", models=["acme:net"],
        records_dir="/r", logs_dir="/l", checkpoints_dir="/c", artifacts_dir="/a", stop_path="/s",
    )  # fmt: skip
    assert Launch.model_validate_json(launch.model_dump_json(indent=2)) == launch


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


@given(st.integers(0, 400))
def test_truncated_record_is_ignored(length: int) -> None:
    line = STEP.model_dump_json()
    assert parse_record(line[: min(length, len(line) - 1)]) is None
