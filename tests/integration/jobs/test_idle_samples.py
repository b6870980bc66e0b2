"""Which samples prove to the idle watch that nobody uses slots, and the rows in which it notes that."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import Engine, func, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, IdleStretch, Sample
from jobs.model.states import EndReason
from jobs.telemetry import idle_watch
from jobs.telemetry.idle_watch import watch_once
from tests.integration.database_messages import waits
from tests.integration.jobs import job_rows
from tests.integration.jobs.idle_jobs import STOP, Run, Running, warned


@pytest.fixture
def run(sessions: Sessions) -> Run:
    return lambda **fields: Running(sessions, **{"idle": STOP} | fields)


def test_a_use_of_one_slot_withdraws_the_warning(run: Run) -> None:
    running = warned(run)
    running.pass_time(101)
    running.samples(range(1, 102), ranks=[0])
    running.samples([*range(1, 50), *range(51, 102)], ranks=[1])
    running.samples([50], 60, ranks=[1])
    assert running.watch() == 1
    assert running.job.idle is None
    assert running.history == ["idle_warned", "idle_withdrawn"]
    assert running.watch() == 0
    running.pass_time(60)
    running.samples(range(1, 61))
    assert running.watch() == 1, "idle again for long enough"
    assert running.history == ["idle_warned", "idle_withdrawn", "idle_warned"]


def test_what_was_not_measured_is_no_proof(run: Run) -> None:
    running = run()
    assert running.watch() == 0
    running.samples(range(1, 500), ranks=[0])
    assert running.watch() == 0
    running.samples(range(1, 500), None, ranks=[1])
    assert running.watch() == 0
    assert running.job.idle is None


def test_a_sampler_that_dies_stops_the_clock_and_then_withdraws_the_warning(run: Run) -> None:
    running = warned(run)
    running.pass_time(101)  # past the time of the action, and nothing was measured
    assert running.watch() == 0
    assert running.ending() is None
    running.pass_time(30)
    running.watch()
    running.watch()
    assert running.history == ["idle_warned", "idle_withdrawn"]
    assert running.job.idle is None
    running.samples(range(1, 25))
    assert running.watch() == 0, "the time without samples does not count"


def test_an_attempt_whose_ranks_have_not_started_is_not_idle(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 500))
    for started_at in (None, func.now() - timedelta(seconds=50)):
        with sessions.begin() as session:
            session.execute(update(Attempt).values(started_at=started_at))
        assert running.watch() == 0


@pytest.mark.parametrize(
    ("cores", "used", "idle"),
    [
        (8, 20.5, 19.5),  # a slot has four cores, and 20 % of a core is 5 % of a slot
        (64, 51, 49),  # a script of one thread would use 3 % of its share: a busy core is a tenth of a slot
    ],
)
def test_a_cpu_slot_is_measured_by_its_share_of_the_host(
    run: Run, sessions: Sessions, cores: int, used: float, idle: float
) -> None:
    running = run(kind="cpu")
    running.samples(range(301, 500), 0)
    assert running.watch() == 0, "its share is not known yet"
    with sessions.begin() as session:
        session.execute(update(Host).values(info=Host.info.op("||")(func.jsonb_build_object("cores", cores))))
    running.samples(range(1, 300), used)
    assert running.watch() == 0
    running.pass_time(110)
    running.samples(range(1, 111), idle)
    assert running.watch() == 1
    assert (running.job.idle or {})["why"] == "its 2 CPU slots are used less than 5 %"


@pytest.mark.parametrize(("ahead", "start_ahead"), [(-300, 0), (300, 0), (86_400, 86_400)])
def test_a_host_whose_clock_is_wrong_is_judged_by_the_time_of_the_database(
    run: Run, sessions: Sessions, ahead: float, start_ahead: float
) -> None:
    running = run()
    with sessions.begin() as session:
        off = func.jsonb_build_object("clock_offset_s", ahead)
        session.execute(update(Host).values(info=Host.info.op("||")(off)))
        session.execute(update(Attempt).values(started_at=Attempt.started_at + timedelta(seconds=start_ahead)))
    running.samples(range(1, 110), ahead=ahead)
    assert running.watch() == 1
    since = datetime.fromisoformat((running.job.idle or {})["since"])
    assert timedelta(seconds=100) < datetime.now(UTC) - since < timedelta(seconds=170)


def test_a_clock_that_is_set_back_brings_no_proof_from_the_future(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 300), ahead=1000)  # of a clock that was ahead, and nobody knew it
    running.samples(range(1, 110), 80)
    assert running.watch() == 0


def test_a_clock_of_the_database_that_is_set_back_begins_the_watch_again(run: Run, sessions: Sessions) -> None:
    running = warned(run)
    running.pass_time(-10_000)  # what was said and judged lies in the future now
    with sessions.begin() as session:
        session.execute(update(IdleStretch).values(looked_at=func.now() + timedelta(seconds=10_000)))
    assert watch_once(sessions, period_s=15, sample_period_s=1.0) == 1
    assert running.job.idle is None
    running.pass_time(110)
    running.samples(range(1, 110))
    assert running.watch() == 1
    assert running.history == ["idle_warned", "idle_withdrawn", "idle_warned"]


def test_another_worker_goes_on_from_the_rows_until_the_attempt_is_over(run: Run, sessions: Sessions) -> None:
    """Samples that were judged are not read again: here they are even gone."""
    running = run()
    running.samples(range(1, 95))
    running.watch()
    with sessions.begin() as session:
        session.execute(Sample.__table__.delete())
    running.pass_time(10)
    running.samples(range(1, 11))
    assert running.watch() == 1
    running.end(EndReason.COMPLETED)
    running.watch()
    with sessions() as session:
        assert session.scalars(select(IdleStretch)).all() == []


def test_one_worker_at_a_time_looks(run: Run, sessions: Sessions) -> None:
    running = run()
    running.samples(range(1, 110))
    with sessions.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock(idle_watch.LOCK)))
        assert running.watch() == 0
    assert running.watch() == 1

    def looked_at() -> datetime:
        with sessions() as session:
            return session.scalars(select(IdleStretch.looked_at)).one()

    before = looked_at()
    assert watch_once(sessions, period_s=3600, sample_period_s=1.0) == 0
    assert looked_at() == before, "another worker has just looked"


def test_many_jobs_cost_as_many_statements_as_one(run: Run, sessions: Sessions, engine: Engine, tmp_path: Path) -> None:
    of_one = waits(engine, tmp_path, run().watch)
    for number in range(20):
        job_rows.a_host(sessions, f"h{number}", kind="gpu")
        job_rows.an_attempt(sessions, job_rows.a_job(sessions, idle=STOP), host=f"h{number}")
    with sessions.begin() as session:
        session.execute(update(Attempt).values(started_at=func.now()))
    assert waits(engine, tmp_path, lambda: watch_once(sessions, period_s=0.0, sample_period_s=1.0)) == of_one
    with sessions() as session:
        assert session.scalar(select(func.count(IdleStretch.attempt_id))) == 21


def test_more_attempts_can_be_watched_than_a_statement_has_parameters(sessions: Sessions) -> None:
    now, count = datetime.now(UTC), 70_000
    times = {"since": now, "until": now, "looked_at": now}
    with sessions.begin() as session:
        session.execute(text("SET LOCAL session_replication_role = replica"))  # there need be no such attempts
        idle_watch._store(session, [{"attempt_id": number, "below": 5.0, **times} for number in range(count)])
        assert session.scalar(select(func.count(IdleStretch.attempt_id))) == count
