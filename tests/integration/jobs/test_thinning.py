"""Thinning leaves the outline of old series: what a chart shows stays, and points that a restart made void go."""

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, MetricBlock, MetricPoint, Rollup, Sample
from jobs.model.states import Status
from jobs.telemetry import ingest, series, thinning
from jobs.telemetry import samples as sample_series
from jobs.telemetry.axes import Axis
from jobs.telemetry.bands import Band, combined
from jobs.telemetry.blocks import BLOCK
from jobs.telemetry.ingest import MetricRow, SampleRow
from jobs.telemetry.samples import SampleSeries
from jobs.telemetry.series import MetricSeries
from jobs.telemetry.thinning import BINS, Thinning
from tests.integration.api.starting_rows import an_attempt, seconds
from tests.integration.jobs import job_rows

KEEP_DAYS = 30


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thinning, "_BATCH_ROWS", 500)


def a_job_that_ended(sessions: Sessions, *, days_ago: float = 31) -> str:
    job_id = job_rows.a_job_that_is(sessions, Status.SUCCEEDED)
    with sessions.begin() as session:
        ended = func.now() - func.make_interval(0, 0, 0, 0, 24 * days_ago)
        session.execute(update(Job).where(Job.id == job_id).values(started_at=seconds(0), ended_at=ended))
    return job_id


def store_points(
    sessions: Sessions, job_id: str, steps: Sequence[int], value: Callable[[int], float], *,
    name: str = "loss", rank: int = 0, attempt: int = 1,
) -> None:  # fmt: skip
    with sessions.begin() as session:
        rows = [MetricRow(job_id, name, rank, step, attempt, step, seconds(step), value(step)) for step in steps]
        ingest.store_metrics(session, rows)


def store_samples(sessions: Sessions, job_id: str, count: int, cpu: Callable[[int], float], *, rank: int = 0) -> None:
    with sessions.begin() as session:
        rows = [
            SampleRow(job_id, 1, rank, seconds(i), "ha", rank, i, None, {"cpu_percent": cpu(i), "memory_bytes": 10 * i})
            for i in range(count)
        ]
        ingest.store_samples(session, rows)


def thin(sessions: Sessions, *, batches: int = 10**6) -> int:
    """Thin all due jobs, or at most `batches` batches. Returns the number of batches."""
    thinning_pass = Thinning(keep_days=KEEP_DAYS)
    for number in range(batches):
        with sessions.begin() as session:
            if not thinning_pass.batch(session):
                return number
    return batches


def metrics(sessions: Sessions, job_id: str) -> dict[tuple[str, int], MetricSeries]:
    with sessions() as session:
        found = series.metrics(session, session.get_one(Job, job_id), max_points=10**6)
    return {(one.name, one.rank): one for one in found}


def samples(sessions: Sessions, job_id: str) -> dict[str, SampleSeries]:
    with sessions() as session:
        found = sample_series.utilization(session, session.get_one(Job, job_id), max_points=10**6)
    return {one.metric: one for one in found.series}


def thinned_at(sessions: Sessions, job_id: str) -> datetime | None:
    return job_rows.the_job(sessions, job_id).series_thinned_at


def noisy(step: int) -> float:
    return math.sin(step / 300) + (step * 7919 % 101) / 500


def test_a_long_series_keeps_its_outline(sessions: Sessions) -> None:
    job_id = a_job_that_ended(sessions)
    spikes = {1: 5.0, 2_222: 90.0, 3_333: -90.0, 5_000: 3.0}
    store_points(sessions, job_id, range(1, 5_001), lambda step: spikes.get(step, noisy(step)))
    before = metrics(sessions, job_id)["loss", 0]
    revision = job_rows.the_job(sessions, job_id).revision
    assert thin(sessions) >= 5  # no batch reads them all
    after = metrics(sessions, job_id)["loss", 0]

    assert BINS < len(after.x) <= 4 * BINS
    assert set(zip(after.x, after.y, strict=True)) < set(zip(before.x, before.y, strict=True))
    assert spikes.items() <= dict(zip(after.x, after.y, strict=True)).items()
    width = 5_000 // BINS
    for start in range(0, 5_000, width):
        inside = [y for x, y in zip(after.x, after.y, strict=True) if start < x <= start + width and y is not None]
        were = [y for y in before.y[start : start + width] if y is not None]
        assert (min(inside), max(inside)) == (min(were), max(were))
    assert thinned_at(sessions, job_id) is not None
    assert job_rows.the_job(sessions, job_id).revision == revision + 1


def test_short_series_and_those_with_one_point_an_epoch_stay_whole(sessions: Sessions) -> None:
    job_id = a_job_that_ended(sessions)
    store_points(sessions, job_id, range(1, 1001), noisy, rank=ingest.ALL_RANKS)
    store_points(sessions, job_id, range(1, 1001), noisy, name="step_time_p95_s", rank=3)
    store_points(sessions, job_id, range(1, 4 * BINS + 1), noisy, rank=1)
    store_points(sessions, job_id, range(1, 1001), noisy, rank=2)
    before = metrics(sessions, job_id)
    thin(sessions)
    after = metrics(sessions, job_id)

    assert {key: len(one.x) for key, one in after.items() if one != before[key]} == {
        ("loss", 2): len(after["loss", 2].x)
    }
    assert len(after["loss", 2].x) <= 4 * BINS


def test_thinning_removes_points_that_a_restart_made_void(sessions: Sessions) -> None:
    job_id = a_job_that_ended(sessions)
    an_attempt(sessions, job_id, 1, resumed_step=0)
    an_attempt(sessions, job_id, 2, resumed_step=2000)
    store_points(sessions, job_id, range(1, 3001), lambda step: 100.0 if step > 2000 else noisy(step), attempt=1)
    store_points(sessions, job_id, range(2001, 4001), noisy, attempt=2)
    store_points(sessions, job_id, [1000, 2000, 3000], float, attempt=1, rank=ingest.ALL_RANKS)
    thin(sessions)
    after = metrics(sessions, job_id)

    assert (after["loss", 0].x[0], after["loss", 0].x[-1]) == (1, 4000)
    assert max(y for y in after["loss", 0].y if y is not None) < 2
    assert after["loss", ingest.ALL_RANKS].x == [1000, 2000]
    with sessions() as session:
        void = (MetricPoint.attempt == 1) & (MetricPoint.step > 2000)
        assert session.scalar(select(func.count()).select_from(MetricPoint).where(void)) == 0
        found = series.metrics(session, session.get_one(Job, job_id), names=["loss"], ranks=[0], bands=1)
    (everything,) = found[0].bands
    assert (everything.count, everything.x_from, everything.x_to) == (4000, 1, 4000)
    assert everything.max < 2


def test_thinned_samples_keep_the_extremes_and_bands_of_every_metric(sessions: Sessions) -> None:
    job_id = a_job_that_ended(sessions)
    spikes = {1234: 800.0, 2999: 0.0}
    store_samples(sessions, job_id, 3000, lambda i: spikes.get(i, 100 + i % 13))
    before = samples(sessions, job_id)
    thin(sessions)
    after = samples(sessions, job_id)

    assert job_rows.count(sessions, Sample) <= 6 * BINS
    assert {spikes[x] for x in after["cpu_percent"].x if x in spikes} == {800.0, 0.0}
    for metric in ("cpu_percent", "memory_bytes"):
        points_left = zip(after[metric].x, after[metric].step, after[metric].y, strict=True)
        assert set(points_left) < set(zip(before[metric].x, before[metric].step, before[metric].y, strict=True))
        assert (after[metric].x[0], after[metric].x[-1]) == (0, 2999)
    with sessions() as session:
        found = sample_series.utilization(session, session.get_one(Job, job_id), bands=25)
        assert {row.name for row in session.scalars(select(Rollup))} == {"cpu_percent", "memory_bytes"}
    cpu, memory = found.series
    assert [band.count for band in cpu.bands] == [120] * 25
    assert [(band.min, band.max) for band in cpu.bands] == [(100, 112)] * 10 + [(100, 800)] + [(100, 112)] * 13 + [
        (0, 112)
    ]
    assert [band.max for band in memory.bands] == [10 * (120 * number + 119) for number in range(25)]


@pytest.mark.parametrize("batches", [1, 3, 5])
def test_an_interrupted_thinning_is_finished_by_the_next_and_counts_no_point_twice(
    sessions: Sessions, batches: int
) -> None:
    whole = a_job_that_ended(sessions)
    store_points(sessions, whole, range(1, 5_001), noisy)
    before = bands(sessions, whole, 25)
    thin(sessions)
    torn = a_job_that_ended(sessions)
    store_points(sessions, torn, range(1, 5_001), noisy)
    assert thin(sessions, batches=batches) == batches
    assert thinned_at(sessions, torn) is None
    assert job_rows.count(sessions, MetricPoint) + BLOCK * job_rows.count(sessions, MetricBlock) > 4 * BINS
    assert same_but_for_p95(before, bands(sessions, torn, 25))
    thin(sessions)

    assert job_rows.count(sessions, MetricBlock) == 0
    assert metrics(sessions, torn) == metrics(sessions, whole)
    assert same_but_for_p95(before, bands(sessions, torn, 25))


def test_many_short_jobs_share_a_batch_and_are_thinned_once_but_not_while_they_run_or_soon_after(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "_BATCH_S", 60)
    later = job_rows.a_job_that_is(sessions, Status.RUNNING), a_job_that_ended(sessions, days_ago=29)
    for job_id in later:
        store_points(sessions, job_id, range(1, 1001), noisy)
    jobs = [a_job_that_ended(sessions) for _ in range(20)]
    for job_id in jobs:
        store_points(sessions, job_id, range(1, 11), noisy)
    assert thin(sessions) == 0  # the first batch found no more

    first = {job_id: thinned_at(sessions, job_id) for job_id in jobs}
    assert None not in first.values()
    assert thin(sessions) == 0
    assert {job_id: thinned_at(sessions, job_id) for job_id in jobs} == first
    assert [len(metrics(sessions, job_id)["loss", 0].x) for job_id in later] == [1000, 1000]


def bands(sessions: Sessions, job_id: str, count: int, *, axis: Axis = "step") -> Sequence[Band]:
    with sessions() as session:
        (loss,) = series.metrics(session, session.get_one(Job, job_id), names=["loss"], axis=axis, bands=count)
    return loss.bands


def same_but_for_p95(before: Sequence[Band], after: Sequence[Band]) -> bool:
    expected = [replace(one, p95=0, mean=pytest.approx(one.mean)) for one in before]
    at_least = all(one.p95 <= other.p95 <= one.max for one, other in zip(before, after, strict=True))
    return expected == [replace(one, p95=0) for one in after] and at_least


@pytest.mark.parametrize("axis", ["step", "time"])
def test_bands_keep_the_figures_of_removed_points(sessions: Sessions, axis: Axis) -> None:
    job_id = a_job_that_ended(sessions)
    store_points(sessions, job_id, range(1, 5_001), lambda step: math.nan if step % 50 == 0 else noisy(step))
    before = bands(sessions, job_id, 25, axis=axis)
    assert [band.count for band in before] == [196] * 25
    thin(sessions)

    assert len(metrics(sessions, job_id)["loss", 0].x) <= 4 * BINS
    assert same_but_for_p95(before, bands(sessions, job_id, 25, axis=axis))
    whole, after = bands(sessions, job_id, 1, axis=axis)[0], combined(before)
    assert (whole.count, whole.min, whole.max) == (after.count, after.min, after.max)
    assert whole.mean == pytest.approx(after.mean)
