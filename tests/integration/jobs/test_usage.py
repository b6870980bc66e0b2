"""What ended attempts add to the usage of accounts by hour, and the levels of jobs."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, ProjectUsage, RunTime, UsageHour
from jobs.lifecycle import leases
from jobs.lifecycle.run_durations import key_of
from jobs.lifecycle.store import Lease
from jobs.lifecycle.submission import StudyPlace, write_jobs
from jobs.model.attained_service import decayed_s
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, Status
from jobs.scheduling.account_rows import used_by_accounts
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_races import at_once
from tests.integration.jobs.writing import change, write
from tests.waiting import until

HOUR_S = 3600.0


def placed(sessions: Sessions, job_id: str, *, held_s: float, slots: Sequence[int] = (0, 1)) -> Lease:
    """An attempt that was placed so long ago."""
    lease = job_rows.an_attempt(sessions, job_id, slots=slots)
    with sessions.begin() as session:
        at = datetime.now(UTC) - timedelta(seconds=held_s)
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(created_at=at))
    return lease


def end(sessions: Sessions, lease: Lease, reason: EndReason = EndReason.COMPLETED) -> None:
    job_rows.end_attempt(sessions, lease, reason, releases=False)


def release(sessions: Sessions, lease: Lease) -> None:
    write(sessions, leases.release, lease.attempt_id)


def held_slot_s(sessions: Sessions, *held: Lease) -> float:
    """The slot-seconds that these ended attempts held, by their rows."""
    total = 0.0
    for lease in held:
        attempt = job_rows.the_attempt(sessions, lease)
        assert attempt.ended_at is not None
        total += attempt.gpus * (attempt.ended_at - attempt.created_at).total_seconds()
    return total


def hours(sessions: Sessions) -> dict[tuple[str, str, datetime], float]:
    """Slot-seconds by project, user and hour."""
    with sessions() as session:
        rows = session.scalars(select(UsageHour).order_by(UsageHour.hour))
        return {(row.project, row.user_name, row.hour): row.slot_seconds for row in rows}


def levels(sessions: Sessions, job_ids: Sequence[str]) -> list[int]:
    return [job_rows.the_job(sessions, job_id).level for job_id in job_ids]


def test_an_attempt_is_divided_into_the_hours_of_utc(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    lease = placed(sessions, job_rows.a_job(sessions), held_s=1.5 * HOUR_S)
    with sessions.begin() as session:
        session.execute(text("SELECT set_config('timezone', 'Asia/Kolkata', true)"))
        leases.end(session, lease, EndReason.COMPLETED)
    attempt = job_rows.the_attempt(sessions, lease)
    assert attempt.ended_at is not None
    expected, since = {}, attempt.created_at.astimezone(UTC)
    while since < attempt.ended_at:
        hour = since.replace(minute=0, second=0, microsecond=0)
        until = min(hour + timedelta(hours=1), attempt.ended_at)
        expected["default", "me", hour] = pytest.approx(2 * (until - since).total_seconds())
        since = until
    assert len(expected) in (2, 3)
    assert hours(sessions) == expected


@pytest.mark.parametrize("half_life_h", [1.0, 24.0])
@pytest.mark.parametrize("held_h", [0.1, 1.0, 30.0])
def test_the_database_and_the_simulator_decay_the_use_of_a_live_attempt_alike(
    sessions: Sessions, held_h: float, half_life_h: float
) -> None:
    job_rows.a_host(sessions)
    lease = placed(sessions, job_rows.a_job(sessions), held_s=held_h * HOUR_S)
    with sessions.begin() as session:
        age_s = session.scalar(
            select(func.extract("epoch", func.now() - Attempt.created_at)).where(Attempt.id == lease.attempt_id)
        )
        assert age_s is not None
        ((_, used_s),) = used_by_accounts(session, half_life_h * HOUR_S)
    held_s = min(float(age_s), 7 * half_life_h * HOUR_S)  # what is older than seven half-lives does not count
    assert used_s == pytest.approx(2 * decayed_s(held_s, half_life_h * HOUR_S), rel=1e-6)


def test_a_preempted_job_keeps_its_level_in_the_queue_and_rises_by_all_its_attempts(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=4)
    job_id = job_rows.a_job(sessions)
    first = placed(sessions, job_id, held_s=1000)
    end(sessions, first, EndReason.PREEMPTED)
    job = job_rows.the_job(sessions, job_id)
    assert (job.status, job.level) == (Status.QUEUED, 1)
    second = placed(sessions, job_id, held_s=2700, slots=(2, 3))
    end(sessions, second, EndReason.PREEMPTED)  # 7400 in all
    job = job_rows.the_job(sessions, job_id)
    assert (job.status, job.level) == (Status.QUEUED, 2)
    whole = pytest.approx(held_slot_s(sessions, first, second))
    assert sum(hours(sessions).values()) == whole
    assert job.slot_seconds == whole
    release(sessions, second)
    change(sessions, update(Job).values(level=5, not_before=None))
    end(sessions, placed(sessions, job_id, held_s=10, slots=(2, 3)), EndReason.PREEMPTED)
    assert levels(sessions, [job_id]) == [5], "a level never falls"


def test_the_waiting_jobs_of_a_study_get_the_level_of_all_of_it(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=4)
    study_id, (first, second, *waiting) = job_rows.a_study(sessions, jobs=4)
    other = job_rows.a_job(sessions)
    end(sessions, placed(sessions, first, held_s=600))
    assert levels(sessions, waiting) == [0, 0]
    running = placed(sessions, second, held_s=600, slots=(2, 3))
    end(sessions, running, EndReason.PREEMPTED)  # 2400 slot-seconds in all, 1200 by each
    assert levels(sessions, [first, second, *waiting, other]) == [0, 1, 1, 1, 0]
    spec = spec_from(job_rows.SPEC | {"batch_size": 32})
    joined = write(sessions, write_jobs, [(spec, resolve_plan(spec, None), StudyPlace(study_id, 4, 1, {}))], owner="me")
    assert levels(sessions, joined) == [1], "also those that join it later"


def test_a_locked_job_of_a_study_is_left_out_without_waiting(sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    _, (first, locked, free) = job_rows.a_study(sessions, jobs=3)
    lease = placed(sessions, first, held_s=1000)
    with sessions.begin() as other:
        other.execute(select(Job.id).where(Job.id == locked).with_for_update())
        with sessions.begin() as session:
            session.execute(text("SET LOCAL lock_timeout = '1ms'"))  # any wait for a row fails
            leases.end(session, lease, EndReason.COMPLETED)
    assert levels(sessions, [locked, free]) == [0, 1]


def test_concurrent_ends_in_one_study_lose_nothing(sessions: Sessions) -> None:
    job_rows.a_host(sessions, slots=8)
    _, job_ids = job_rows.a_study(sessions, jobs=8)
    waiting = job_ids[4:]
    for _ in range(5):
        change(sessions, update(Job).values(not_before=None))
        held = [
            placed(sessions, job_id, held_s=300, slots=(2 * place, 2 * place + 1))
            for place, job_id in enumerate(job_ids[:4])
        ]
        before = sum(job_rows.the_job(sessions, job_id).slot_seconds for job_id in job_ids)
        at_once([lambda lease=lease: end(sessions, lease, EndReason.PREEMPTED) for lease in held])
        after = sum(job_rows.the_job(sessions, job_id).slot_seconds for job_id in job_ids)
        assert after - before == pytest.approx(held_slot_s(sessions, *held))
        assert sum(hours(sessions).values()) == pytest.approx(after)
        assert levels(sessions, waiting) == [1 if after < 7200 else 2] * 4
        for lease in held:
            release(sessions, lease)
    with sessions() as session:
        assert sum(session.scalars(select(ProjectUsage.slot_seconds))) == pytest.approx(after)


def test_ends_lock_shared_rows_in_one_sequence(sessions: Sessions) -> None:
    """So no two of them wait for each other: the duration of the run, then the month, then the hour."""
    job_rows.a_host(sessions, slots=3)
    first, *others = (placed(sessions, job_rows.a_job(sessions), held_s=9, slots=[slot]) for slot in range(3))
    end(sessions, first)
    tables = ("run_times", "project_usage", "usage_hours")
    for lease, (locked, *later) in zip(others, (tables, tables[1:]), strict=True):
        with ThreadPoolExecutor(1) as pool:
            with sessions.begin() as session:
                session.execute(text(f"SELECT FROM {locked} FOR UPDATE"))
                ending = pool.submit(end, sessions, lease)
                until(lambda: job_rows.waiting_for_locks(sessions) == 1, what="an end that waits")
                for table in later:
                    session.execute(text(f"SELECT FROM {table} FOR UPDATE NOWAIT"))
            ending.result()


def known_runs(sessions: Sessions, *durations_s: float, **fields: object) -> None:
    with sessions.begin() as session:
        key = key_of(spec_from(job_rows.SPEC | fields))
        session.add(RunTime(run_key=key, durations_s=list(durations_s)))


@pytest.mark.parametrize(
    ("durations_s", "level"),
    [((), 0), ((899.0,), 0), ((900.0,), 1), ((9000.0, 3599.0), 1), ((9000.0, 3600.0, 5000.0), 2), ((10.0, 1e9), 0)],
)
def test_a_new_job_has_the_level_of_the_shortest_run_like_it(
    sessions: Sessions, durations_s: tuple[float, ...], level: int
) -> None:
    before = job_rows.a_job(sessions)
    if durations_s:
        known_runs(sessions, *durations_s)
    known_runs(sessions, 1e6, batch_size=128)
    like, other = job_rows.a_job(sessions), job_rows.a_job(sessions, batch_size=256)
    _, of_study = job_rows.a_study(sessions, jobs=2)
    assert levels(sessions, [before, like, other, *of_study]) == [0, level, 0, level, level]
