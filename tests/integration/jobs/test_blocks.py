"""Points in blocks read like rows, for every size of batch, and while they are written."""

import math
from collections.abc import Sequence

import pytest
from sqlalchemy import select

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, MetricBlock, MetricPoint
from jobs.model.states import Status
from jobs.telemetry import series as series_module
from jobs.telemetry.axes import AxisRange
from jobs.telemetry.blocks import BLOCK, points_of_block
from jobs.telemetry.ingest import ALL_RANKS, MetricRow, store_metrics
from jobs.telemetry.series import MetricSeries, metrics
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs import job_rows

STEPS = 3 * BLOCK + 100


def row(job_id: str, step: int, value: float, *, name: str = "loss", rank: int = 0, attempt: int = 1) -> MetricRow:
    return MetricRow(job_id, name, rank, step, attempt, (step + 999) // 1000, seconds(step / 8), value)


def store(sessions: Sessions, rows: Sequence[MetricRow], *, at_once: int) -> None:
    for start in range(0, len(rows), at_once):
        with sessions.begin() as session:
            store_metrics(session, rows[start : start + at_once])


def a_job(sessions: Sessions) -> str:
    job_id = job_rows.a_job_that_is(sessions, Status.RUNNING)
    with sessions.begin() as session:
        job = session.get_one(Job, job_id)
        job.started_at, job.plan = seconds(0), {**job.plan, "steps_per_epoch": 1000}
    return job_id


def read_series(sessions: Sessions, job_id: str, **query: object) -> list[MetricSeries]:
    with sessions() as session:
        return metrics(session, session.get_one(Job, job_id), **{"max_points": 10**6, **query})  # type: ignore[arg-type]


def stored_blocks(sessions: Sessions) -> list[MetricBlock]:
    with sessions() as session:
        return list(session.scalars(select(MetricBlock).order_by(MetricBlock.id)))


@pytest.mark.parametrize("at_once", [9, 60, 1000, 2 * STEPS], ids=lambda rows: f"{rows}-at-once")
def test_long_series_are_stored_in_blocks_and_read_back_unchanged(sessions: Sessions, at_once: int) -> None:
    job_id = a_job(sessions)
    steps = range(1, (BLOCK + 50 if at_once == 9 else STEPS) + 1)
    rows = [row(job_id, step, step / 3, name=name) for step in steps for name in ("loss", "step_time_s")]
    store(sessions, rows, at_once=at_once)

    blocks = stored_blocks(sessions)
    merged_blocks = [block for block in blocks if block.last_step - block.first_step > BLOCK // 2]
    for name in ("loss", "step_time_s"):
        assert sum(block.name == name for block in merged_blocks) >= (steps[-1] - at_once) // max(BLOCK, at_once)
    with sessions() as session:
        rows_left = [tuple(one) for one in session.execute(select(*MetricPoint.__table__.columns))]
    assert sorted([*rows_left, *(point for block in blocks for point in points_of_block(block))]) == sorted(rows)
    assert len(rows_left) < 2 * BLOCK
    for series in read_series(sessions, job_id):
        assert series.x == list(steps)
        assert series.y == [step / 3 for step in steps]


def test_series_with_one_point_an_epoch_are_never_stored_in_blocks(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    rows = [row(job_id, step, 1.0, rank=ALL_RANKS) for step in range(1, 2 * BLOCK)]
    rows += [row(job_id, step, 1.0, name="epoch_data_wait_s") for step in range(1, 2 * BLOCK)]
    store(sessions, rows, at_once=500)

    assert (job_rows.count(sessions, MetricPoint), stored_blocks(sessions)) == (len(rows), [])


def test_points_in_blocks_are_read_on_every_axis_and_in_full_when_zoomed_in(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    store(sessions, [row(job_id, step, float(step)) for step in range(1, STEPS + 1)], at_once=1000)
    ends = [row(job_id, step, 0.5, rank=ALL_RANKS) for step in (1000, 2000, 3000)]
    store(sessions, ends, at_once=10)

    by_epoch = {one.rank: one for one in read_series(sessions, job_id, axis="epoch", names=["loss"])}
    assert by_epoch[ALL_RANKS].x == [1, 2, 3]
    assert by_epoch[0].x == pytest.approx([step / 1000 for step in range(1, STEPS + 1)])
    assert [one.rank for one in read_series(sessions, job_id, axis="epoch")] == [ALL_RANKS]
    (by_time,) = read_series(sessions, job_id, axis="time", ranks=[0])
    assert by_time.x == [step / 8 for step in range(1, STEPS + 1)]
    zooms = {"step": (1500, 1700), "epoch": (1.5, 1.7), "time": (1500 / 8, 1700 / 8)}
    for axis, (start, end) in zooms.items():
        (near,) = read_series(
            sessions, job_id, axis=axis, names=["loss"], ranks=[0], x_range=AxisRange(start, end), max_points=500
        )
        assert near.y == list(range(1500, 1701)), axis


def test_points_in_blocks_that_a_later_attempt_ran_again_do_not_count(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    with sessions.begin() as session:
        for number, resumed in ((1, 0), (2, 1500)):
            attempt = Attempt(job_id=job_id, number=number, host="ha", gpus=1, resumed_step=resumed)
            attempt.lease_expires_at = attempt.ended_at = seconds(0)
            session.add(attempt)
    store(sessions, [row(job_id, step, 1.0) for step in range(1, 2501)], at_once=700)
    store(sessions, [row(job_id, step, 2.0, attempt=2) for step in range(1501, 4001)], at_once=700)

    (loss,) = read_series(sessions, job_id)
    assert loss.x == list(range(1, 4001))
    assert loss.y == [1.0] * 1500 + [2.0] * 2500


def test_missing_steps_and_values_that_are_not_finite_survive_in_blocks(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    values = {step: math.nan if step % 5 == 0 else -step / 7 for step in range(3, 2 * STEPS, 3)}
    store(sessions, [row(job_id, step, value) for step, value in values.items()], at_once=300)

    assert any(block.steps is not None for block in stored_blocks(sessions))
    (loss,) = read_series(sessions, job_id)
    assert dict(zip(loss.x, loss.y, strict=True)) == {
        step: None if math.isnan(value) else value for step, value in values.items()
    }


def test_a_series_too_long_for_memory_keeps_the_points_that_a_chart_needs(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(series_module, "_AT_ONCE", 2000)
    job_id = a_job(sessions)
    spikes = {10: 50.0, 1030: -50.0, 1031: 60.0, 3000: 40.0}
    values = {step: spikes.get(step, math.sin(step / 100)) for step in range(1, STEPS + 1)}
    store(sessions, [row(job_id, step, value) for step, value in values.items()], at_once=500)
    (loss,) = read_series(sessions, job_id, max_points=100)
    points = dict(zip(loss.x, loss.y, strict=True))

    assert len(points) == len(loss.x) <= 100
    assert spikes.items() <= points.items() <= values.items()
    assert (loss.x[0], loss.x[-1]) == (1, STEPS)
