"""Expected starts with real rows: what is stored, shown and judged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, StartForecast
from jobs.lifecycle.store import pause
from jobs.runtime.settings import Settings
from jobs.scheduling.forecast_rows import expected_starts_s, forecast_accuracy
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.dispatcher.live_attempts import began, live_leases, standing
from worker.dispatcher import Dispatcher
from worker.forecaster import LOCK, Forecaster

MakeForecaster = Callable[..., Forecaster]


@pytest.fixture
def make_forecaster(sessions: Sessions) -> MakeForecaster:
    return lambda **settings: Forecaster(sessions, Settings(**settings))


def says(sessions: Sessions, job_id: str, **progress: Any) -> None:
    """Let the attempt of a job train, and say how long it still takes."""
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.job_id == job_id).values(started_at=func.now()))
        session.execute(update(Job).where(Job.id == job_id).values(progress=progress))


def starts_s(sessions: Sessions, *job_ids: str) -> dict[str, float]:
    with sessions() as session:
        return dict(expected_starts_s(session, job_ids))


def test_a_job_starts_when_the_attempt_before_it_says_that_it_ends(
    sessions: Sessions, dispatcher: Dispatcher, make_forecaster: MakeForecaster
) -> None:
    job_rows.a_host(sessions)
    first = job_rows.a_job(sessions)
    forecaster = make_forecaster()
    assert dispatcher.run() == 1
    says(sessions, first, eta_s=500.0)
    second, too_wide, paused = job_rows.a_job(sessions), job_rows.a_job(sessions, gpus=4), job_rows.a_job(sessions)
    write(sessions, pause, paused)
    assert dispatcher.run() == 0
    assert starts_s(sessions, second) == {}
    forecaster.once()
    assert starts_s(sessions, second, too_wide, paused, first) == {second: 500.0}
    assert [standing(sessions, job_id).starts_in_s for job_id in (second, paused)] == [500.0, None]

    says(sessions, first, eta_s=90.0)
    forecaster.once()
    assert starts_s(sessions, second) == {second: 90.0}
    job_rows.end_attempt(sessions, live_leases(sessions)[0])
    assert dispatcher.run() == 1
    assert starts_s(sessions, second) == {}
    forecaster.once()
    with sessions() as session:
        row = session.scalars(select(StartForecast)).one()
        assert row.first_starts_at - row.made_at == timedelta(seconds=500)  # the first one is judged
        assert row.started_at == session.scalar(select(Attempt.created_at).where(Attempt.job_id == second))
        accuracy = forecast_accuracy(session)
        assert accuracy is not None
        assert (accuracy.jobs, accuracy.within_2) == (1, 0.0)
        assert accuracy.median_error == pytest.approx(500 / 60)  # a wait of a moment counts as one of a minute
        assert forecast_accuracy(session, waited_s=60) is None


def test_old_forecasts_are_not_shown_and_those_of_waits_without_a_start_are_removed(
    sessions: Sessions, dispatcher: Dispatcher, make_forecaster: MakeForecaster
) -> None:
    job_rows.a_host(sessions)
    first = job_rows.a_job(sessions)
    assert dispatcher.run() == 1
    says(sessions, first, eta_s=500.0)
    second, third = job_rows.a_job(sessions), job_rows.a_job(sessions)
    forecaster = make_forecaster()
    with sessions() as other:  # another worker makes a forecast
        other.execute(select(func.pg_advisory_xact_lock(LOCK)))
        forecaster.once()
    assert starts_s(sessions, second, third) == {}
    forecaster.once()
    expected_s = starts_s(sessions, second, third)
    assert expected_s[second] == 500.0 < expected_s[third]
    change(sessions, update(StartForecast).values(shown_until=func.now()))
    job_rows.cancel(sessions, third)
    assert starts_s(sessions, second, third) == {}
    forecaster.once()
    assert starts_s(sessions, second, third).keys() == {second}
    assert job_rows.count(sessions, StartForecast) == 1


def test_jobs_of_a_fair_queue_are_expected_to_take_the_slots_of_long_ones(
    sessions: Sessions, dispatcher: Dispatcher, make_forecaster: MakeForecaster
) -> None:
    """The attempt is left undisturbed for its quantum, and then makes room."""
    job_rows.a_host(sessions)
    long = job_rows.a_job(sessions, time_limit_s=90_000)
    assert dispatcher.run() == 1
    says(sessions, long, eta_s=80_000.0)
    began(sessions, live_leases(sessions)[0], ago_s=400)
    change(sessions, update(Job).where(Job.id == long).values(level=1))
    new = job_rows.a_job(sessions, owner="ann")
    make_forecaster().once()
    assert 100 < starts_s(sessions, new)[new] < 400
    make_forecaster(queue="fifo").once()
    assert starts_s(sessions, new)[new] > 70_000
