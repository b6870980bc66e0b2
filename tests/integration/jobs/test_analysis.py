"""The analysis of real rows: in blocks and not, valid and void, of live and of ended jobs, stored and not."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, JobAnalysis, MetricBlock, MetricPoint
from jobs.insight.analysis import analyse, reading
from jobs.insight.analysis.analyse import analysis_of
from jobs.insight.analysis.keeping import Keeping
from jobs.insight.analysis.points import parts
from jobs.lifecycle.store import get_job
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.settings import Settings
from jobs.telemetry import blocks, ingest, thinning
from jobs.telemetry.ingest import MetricRow, SampleRow, event_row
from jobs.views.analysis import Analysis, FindingKind, LedgerItem
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import write
from worker.retention import Retention

near = pytest.approx
START = datetime(2030, 1, 1, tzinfo=UTC)
STEP_S = 0.1
PER_EPOCH = 10


def moment(after_s: float) -> datetime:
    return START + timedelta(seconds=after_s)


def a_job(sessions: Sessions, *, ended: bool = True, **fields: Any) -> str:
    """A job of two ranks that started at `START`, and ended long ago or runs."""
    job_rows.a_host(sessions)
    job_id = job_rows.a_job_that_is(sessions, Status.SUCCEEDED if ended else Status.RUNNING)
    with sessions.begin() as session:
        times = {"started_at": START} | ({"ended_at": func.now() - timedelta(days=1)} if ended else {})
        session.execute(update(Job).where(Job.id == job_id).values(times | fields))
    return job_id


def an_attempt(sessions: Sessions, job_id: str, number: int = 1, *, lasted_s: float = 60.0, **fields: Any) -> None:
    """Leased ten seconds before its first rank came up, at `START` and a hundred seconds later for each number."""
    at = 100.0 * (number - 1)
    times = {"created_at": moment(at - 10), "started_at": moment(at), "ended_at": moment(at - 10 + lasted_s)}
    with sessions.begin() as session:
        session.add(
            Attempt(
                job_id=job_id, number=number, host="ha", gpus=2, lease_expires_at=START,
                **times | {"end_reason": EndReason.COMPLETED, "resumed_step": 0} | fields,
            )
        )  # fmt: skip


def steps(
    sessions: Sessions,
    job_id: str,
    numbers: Sequence[int],
    *,
    attempt: int = 1,
    since: int | None = None,
    data_wait_s: Sequence[float] = (0.0, 0.0),
    allreduce_s: Sequence[float] = (0.01, 0.01),
) -> None:
    """Steps of 0.1 s, the first of which (or `since`) ends 5 s behind the start of its attempt; ten an epoch."""
    first_at = 100.0 * (attempt - 1) + 5.0
    rows = [
        MetricRow(job_id, name, rank, step, attempt, (step - 1) // PER_EPOCH + 1,
                  moment(first_at + STEP_S * (step - (since or numbers[0]))), value)
        for step in numbers
        for rank in (0, 1)
        for name, value in (
            ("step_time_s", STEP_S), ("data_wait_s", data_wait_s[rank]), ("allreduce_s", allreduce_s[rank])
        )
    ]  # fmt: skip
    write(sessions, ingest.store_metrics, rows)


def epochs(sessions: Sessions, job_id: str, accuracies: Sequence[float], *, attempt: int = 1, first: int = 1) -> None:
    """An epoch each that ends half a second behind its last step, and a checkpoint of a tenth of a second."""
    start = 100.0 * (attempt - 1) + 5.0 - STEP_S
    rows, events = [], []
    for number, accuracy in enumerate(accuracies, first):
        ended = moment(start + STEP_S * PER_EPOCH * (number - first + 1))
        values = {"val_accuracy": accuracy, "accuracy": accuracy, "loss": 1 - accuracy, "val_loss": 1 - accuracy}
        rows += [
            MetricRow(job_id, name, -1, number * PER_EPOCH, attempt, number, ended, value)
            for name, value in values.items()
        ]
        data = {"epoch": number, "step": number * PER_EPOCH, "duration_s": 0.1}
        events.append(event_row(job_id, EventKind.CHECKPOINT_SAVED, at=ended, attempt=attempt, data=data))
    with sessions.begin() as session:
        ingest.store_metrics(session, rows)
        ingest.store_events(session, events)


def samples(sessions: Sessions, job_id: str, busy: Sequence[float | None], *, rank: int = 0, **metrics: Any) -> None:
    """A sample a second from `START` on."""
    rows = [
        SampleRow(job_id, 1, rank, moment(second), "ha", rank, None, None, {"cpu_percent": value} | metrics)
        for second, value in enumerate(busy)
    ]
    write(sessions, ingest.store_samples, rows)


def analyse_job(sessions: Sessions, job_id: str) -> Analysis:
    with sessions.begin() as session:
        analysis = analysis_of(session, get_job(session, job_id))
    assert sum(analysis.ledger.items.values()) == near(analysis.ledger.leased_s)
    return analysis


def analysed_job_ids(sessions: Sessions) -> list[str]:
    with sessions() as session:
        return list(session.scalars(select(JobAnalysis.job_id)))


def test_a_job_is_analysed_from_its_rows(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    an_attempt(sessions, job_id)
    steps(sessions, job_id, range(1, 51), data_wait_s=(0.06, 0.0), allreduce_s=(0.01, 0.07))
    epochs(sessions, job_id, [0.5, 0.6, 0.7, 0.6, 0.6])
    samples(sessions, job_id, [None, 10, 20, 30, 40, 50, 60, 70, 80, 90], memory_bytes=1000)

    analysis = analyse_job(sessions, job_id)

    assert (analysis.job_id, analysis.complete) == (job_id, True)
    assert [finding.kind for finding in analysis.findings] == [FindingKind.INPUT_BOUND]
    assert [(one.rank, one.steps, one.data_wait, one.allreduce) for one in analysis.steps] == [
        (-1, 49, near(0.6), near(0.1)), (0, 49, near(0.6), near(0.1)), (1, 49, near(0.0), near(0.7)),
    ]  # fmt: skip
    (use,) = analysis.utilization
    assert (use.metric, use.samples, use.spread.least, use.spread.greatest) == ("cpu_percent", 5, 50, 90)
    assert analysis.learning is not None
    assert (analysis.learning.best_epoch, analysis.learning.epochs_run) == (3, 5)
    items = analysis.ledger.items
    assert analysis.ledger.leased_s == near(120)
    assert (items[LedgerItem.LAUNCH], items[LedgerItem.SET_UP]) == (near(20), near(10))
    # Epochs 4 and 5 are after the best one; the checkpoints lie within the steps that follow them.
    assert items[LedgerItem.AFTER_BEST] == near(2 * 2.0)
    assert items[LedgerItem.DATA_WAIT] == near(2 * 0.6 * 2.9)
    assert items[LedgerItem.COMMUNICATION] == near(2 * 0.1 * 2.9)


def test_many_steps_in_blocks_are_analysed_from_an_even_sample(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MOST_RANK_STEPS", 4096)
    job_id = a_job(sessions)
    an_attempt(sessions, job_id, lasted_s=700.0)
    for first in range(1, 6001, 1000):
        steps(sessions, job_id, range(first, first + 1000))
    assert job_rows.count(sessions, MetricBlock) > 0
    with sessions.begin() as session:
        at_first = func.make_interval(0, 0, 0, 0, 0, 0, (MetricPoint.step - 1) * STEP_S)
        session.execute(update(MetricPoint).values(at=START + timedelta(seconds=5) + at_first))

    analysis = analyse_job(sessions, job_id)

    everything = analysis.steps[0]
    assert (everything.steps, everything.allreduce, everything.compute) == (5999, near(0.1), near(0.9))
    assert len(analysis.steps) == 3


def test_the_analysis_does_not_depend_on_the_batches_of_stored_steps(sessions: Sessions) -> None:
    analyses = []
    for borders in ((1, 61), (1, 4, 20, 22, 40, 41, 44, 61)):  # batches of one or two steps stay rows, between blocks
        job_id = a_job(sessions)
        an_attempt(sessions, job_id)
        for first, after in pairwise(borders):
            steps(sessions, job_id, range(first, after), since=1)
        analyses.append(analyse_job(sessions, job_id))
    with sessions() as session:
        in_rows = session.scalars(select(MetricPoint.step).where(MetricPoint.job_id == job_id).distinct()).all()
        step_parts = parts(session, job_id, 1, ("step_time_s",), rank=0)
        assert [step for part in step_parts for step in part.steps.tolist()] == list(range(1, 61))
    assert 0 < len(in_rows) < 60

    at_once, bit_by_bit = analyses
    assert bit_by_bit.stalls == []
    assert bit_by_bit.steps == at_once.steps
    assert bit_by_bit.ledger.items == pytest.approx(at_once.ledger.items, abs=1e-3)


def test_void_steps_count_only_as_lost_time(sessions: Sessions) -> None:
    job_id = a_job(sessions)
    an_attempt(sessions, job_id, lasted_s=30.0, end_reason=EndReason.HOST_LOST)
    steps(sessions, job_id, range(1, 31), data_wait_s=(0.09, 0.09), allreduce_s=(0.0, 0.0))
    epochs(sessions, job_id, [0.5, 0.6])
    an_attempt(sessions, job_id, 2, resumed_step=10)
    steps(sessions, job_id, range(11, 51), attempt=2)
    epochs(sessions, job_id, [0.7, 0.8, 0.9, 0.95], attempt=2, first=2)

    analysis = analyse_job(sessions, job_id)

    assert analysis.steps[0].steps == 9 + 39
    assert analysis.steps[0].data_wait == near(9 * 0.09 / (48 * STEP_S))
    assert analysis.ledger.items[LedgerItem.LOST] == near(2 * 2.0)
    assert [(stall.after_step, stall.length_s) for stall in analysis.stalls] == [(30, near(20 - 7.9))]
    assert analysis.learning is not None
    assert analysis.learning.best == near(0.95)


def test_a_live_job_without_steps_is_reported_as_stalled(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(blocks, "_SEVERAL", 1000)  # times of rows can be changed
    job_id = a_job(sessions, ended=False)
    an_attempt(sessions, job_id, ended_at=None, end_reason=None)
    steps(sessions, job_id, range(1, 51))
    with sessions.begin() as session:  # the last step was a minute ago
        ago = func.clock_timestamp() - timedelta(seconds=60) - moment(5 + 49 * STEP_S)
        session.execute(update(MetricPoint).values(at=MetricPoint.at + ago))
        both = {Attempt.created_at: Attempt.created_at + ago, Attempt.started_at: Attempt.started_at + ago}
        session.execute(update(Attempt).values(both))

    analysis = analyse_job(sessions, job_id)

    assert not analysis.complete
    (stall,) = analysis.stalls
    assert (stall.ongoing, stall.after_step) == (True, 50)
    assert stall.length_s == near(60, abs=5)
    assert FindingKind.STALLED in [finding.kind for finding in analysis.findings]
    assert analysed_job_ids(sessions) == []


def test_the_analysis_of_an_ended_job_stays_when_its_series_are_gone_until_there_is_a_newer_version(
    sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = a_job(sessions)
    an_attempt(sessions, job_id)
    steps(sessions, job_id, range(1, 51))
    before = analyse_job(sessions, job_id)
    assert before.steps != []
    with sessions.begin() as session:
        for table in (MetricPoint, MetricBlock):
            session.execute(table.__table__.delete())  # type: ignore[attr-defined]

    assert analysed_job_ids(sessions) == [job_id]
    assert analyse_job(sessions, job_id) == before
    monkeypatch.setattr(analyse, "VERSION", analyse.VERSION + 1)
    assert analyse_job(sessions, job_id).steps == [], "it is computed again"


def test_the_analysis_of_a_job_that_waits_or_has_just_ended_is_not_stored_yet(sessions: Sessions) -> None:
    waiting = analyse_job(sessions, job_rows.a_job(sessions))
    assert waiting.ledger.leased_s == 0
    assert (waiting.findings, waiting.steps, waiting.utilization, waiting.learning) == ([], [], [], None)
    just_ended = a_job(sessions, ended_at=func.now())
    an_attempt(sessions, just_ended)
    steps(sessions, just_ended, range(1, 51))
    assert analyse_job(sessions, just_ended).complete
    assert analysed_job_ids(sessions) == []


def test_the_analyses_of_old_jobs_are_stored_even_if_one_fails(
    sessions: Sessions, caplog: pytest.LogCaptureFixture
) -> None:
    old, broken, _ = (a_job(sessions, ended_at=func.now() - timedelta(days=days)) for days in (40, 39, 2))
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == broken).values(spec={"early_stopping": {"monitor": "loss"}}))
        keeping = Keeping(keep_days=30)
        assert keeping.keep_one(session)
        assert keeping.keep_one(session)
        assert not keeping.keep_one(session)

    assert analysed_job_ids(sessions) == [old]
    assert [getattr(record, "job", None) for record in caplog.records] == [broken]  # and does not hold up the others


def test_thinning_does_not_change_the_analysis(
    sessions: Sessions, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thinning, "BINS", 2)
    job_id = a_job(sessions, ended_at=func.now() - timedelta(days=40))
    an_attempt(sessions, job_id, lasted_s=300.0)
    steps(sessions, job_id, range(1, 2001))

    Retention(sessions, Settings(home=tmp_path, keep_steps_days=30)).tidy()

    assert job_rows.count(sessions, MetricPoint) < 100
    assert job_rows.count(sessions, MetricBlock) == 0
    assert [one.steps for one in analyse_job(sessions, job_id).steps] == [1999] * 3
