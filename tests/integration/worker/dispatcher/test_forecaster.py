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
from jobs.scheduling.queue import standings
from tests.integration.jobs import job_rows
from tests.integration.worker.dispatcher.live_attempts import MakeDispatcher, complete, live_leases
from worker.forecaster import Forecaster

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
    sessions: Sessions, make_dispatcher: MakeDispatcher, make_forecaster: MakeForecaster
) -> None:
    job_rows.a_host(sessions)
    first = job_rows.a_job(sessions)
    dispatcher, forecaster = make_dispatcher(), make_forecaster()
    assert dispatcher.run() == 1
    says(sessions, first, eta_s=500.0)
    second, too_wide, paused = job_rows.a_job(sessions), job_rows.a_job(sessions, gpus=4), job_rows.a_job(sessions)
    with sessions.begin() as session:
        pause(session, paused)
    assert dispatcher.run() == 0
    assert starts_s(sessions, second) == {}
    forecaster.once()
    assert starts_s(sessions, second, too_wide, paused, first) == {second: 500.0}
    with sessions() as session:
        standing = standings(session, [second, paused], host_timeout_s=60)
    assert (standing[second].starts_in_s, standing[paused].starts_in_s) == (500.0, None)

    says(sessions, first, eta_s=90.0)
    forecaster.once()
    assert starts_s(sessions, second) == {second: 90.0}
    complete(sessions, live_leases(sessions)[0])
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
