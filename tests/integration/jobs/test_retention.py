"""Retention: which rows and files of old jobs, lost hosts and people are removed, and which stay."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, insert, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, AuditEntry, Host, Job, JobEvent, LogLine, Slot, Token, UsageHour
from jobs.lifecycle import leases, retention
from jobs.model.scopes import Scope
from jobs.model.states import EndReason, Status
from jobs.people.tokens import Kind, store_token
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest
from jobs.telemetry.ingest import LogRow
from tests.integration.api.starting_rows import seconds
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from worker.retention import Retention


def a_job_with_logs(sessions: Sessions, *, days_ago: float, lines: int = 3) -> str:
    """A job that ended so long ago."""
    job_id = job_rows.a_job_that_is(sessions, Status.FAILED)
    with sessions.begin() as session:
        ended = func.now() - timedelta(days=days_ago)
        session.execute(update(Job).where(Job.id == job_id).values(ended_at=ended))
        ingest.store_logs(session, [LogRow(job_id, 1, 0, seconds(i), f"line {i}") for i in range(lines)])
    return job_id


def remove_logs(sessions: Sessions) -> int:
    """All that are due; says in how many batches."""
    for number in range(10**6):
        with sessions.begin() as session:
            if not retention.remove_logs(session, keep_days=30):
                return number
    raise AssertionError


def line_counts(sessions: Sessions) -> dict[str, int]:
    with sessions() as session:
        rows = session.execute(select(LogLine.job_id, func.count()).group_by(LogLine.job_id))
        return {job_id: count for job_id, count in rows}  # noqa: C416 - a row is no pair to the type checker


def test_old_log_lines_are_removed_in_batches_and_the_job_records_it(sessions: Sessions) -> None:
    old = [a_job_with_logs(sessions, days_ago=31), a_job_with_logs(sessions, days_ago=99, lines=12_000)]
    young, running = a_job_with_logs(sessions, days_ago=29), job_rows.a_job_that_is(sessions, Status.RUNNING)
    write(sessions, ingest.store_logs, [LogRow(running, 1, 0, seconds(-(10**8)), "an old line")])
    before = job_rows.the_job(sessions, old[0])
    assert remove_logs(sessions) == 3

    assert line_counts(sessions) == {young: 3, running: 1}
    for job_id in old:
        job = job_rows.the_job(sessions, job_id)
        assert job.logs_removed_at is not None
        assert job.logs_removed_at > before.created_at
    assert job_rows.the_job(sessions, old[0]).revision == before.revision + 1
    assert job_rows.the_job(sessions, young).logs_removed_at is None
    assert job_rows.count(sessions, JobEvent) == 4  # one for each submission: histories stay


def test_an_interrupted_batch_is_done_again_and_a_finished_one_is_not(sessions: Sessions) -> None:
    job_id = a_job_with_logs(sessions, days_ago=31)
    with sessions() as session:
        assert retention.remove_logs(session, keep_days=30)
        session.rollback()
    assert line_counts(sessions) == {job_id: 3}
    assert job_rows.the_job(sessions, job_id).logs_removed_at is None
    assert remove_logs(sessions) == 1
    assert line_counts(sessions) == {}
    marked = job_rows.the_job(sessions, job_id).logs_removed_at
    assert remove_logs(sessions) == 0
    assert job_rows.the_job(sessions, job_id).logs_removed_at == marked


def test_one_worker_at_a_time_removes_logs(sessions: Sessions) -> None:
    with sessions.begin() as one, sessions.begin() as other:
        assert retention.take_lock(one)
        assert not retention.take_lock(other)
    with sessions.begin() as third:
        assert retention.take_lock(third)
        assert third.scalar(text("SHOW lock_timeout")) == "2s"


def hosts(sessions: Sessions) -> set[str]:
    with sessions() as session:
        return set(session.scalars(select(Host.name)))


def forget(sessions: Sessions) -> set[str]:
    with sessions.begin() as session:
        return set(retention.forget_hosts(session, after_days=7))


def test_hosts_that_are_lost_for_long_are_forgotten_with_their_slots(sessions: Sessions) -> None:
    for name, silent_days in (("alive", 0), ("lost", 6.9), ("gone", 7.1)):
        job_rows.a_host(sessions, name)
        job_rows.host_went_silent(sessions, name, for_s=86400 * silent_days)
    assert forget(sessions) == {"gone"}
    assert hosts(sessions) == {"alive", "lost"}
    assert job_rows.the_slots(sessions, "gone") == []
    assert forget(sessions) == set()


def test_a_host_is_not_forgotten_while_an_attempt_is_live_or_a_slot_in_quarantine(sessions: Sessions) -> None:
    job_rows.a_host(sessions, "hb")
    lease = job_rows.a_running_attempt(sessions)
    change(sessions, update(Slot).where(Slot.host == "hb", Slot.index == 0).values(attempt_id=lease.attempt_id))
    for name in ("ha", "hb"):
        job_rows.host_went_silent(sessions, name, for_s=86400 * 30)
    assert forget(sessions) == set()
    with sessions.begin() as session:  # nothing of the attempt, which is led elsewhere, is on it any more
        session.execute(update(Slot).where(Slot.host == "hb").values(attempt_id=None))
    assert forget(sessions) == {"hb"}
    change(sessions, update(Slot).values(attempt_id=None))
    assert forget(sessions) == set()  # its supervisor may still write
    with sessions.begin() as session:
        session.execute(update(Slot).values(attempt_id=lease.attempt_id))
        leases.end(session, lease, EndReason.HOST_LOST)
        leases.quarantine(session, lease.attempt_id, host="ha")
    assert forget(sessions) == set()
    change(sessions, update(Slot).values(quarantined_at=None))
    assert forget(sessions) == {"ha"}  # its slots are still leased: no agent there releases them
    assert job_rows.the_attempt(sessions, lease).host == "ha"


def test_only_files_of_jobs_that_ended_long_ago_may_be_removed(sessions: Sessions) -> None:
    old, young = a_job_with_logs(sessions, days_ago=31), a_job_with_logs(sessions, days_ago=29)
    lease = job_rows.a_running_attempt(sessions)
    job_ids = [old, young, lease.job_id, "unknown"]

    def ended_long_ago() -> set[str]:
        with sessions() as session:
            return retention.ended_long_ago(session, job_ids, keep_days=30)

    assert ended_long_ago() == {old}
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
        session.execute(update(Job).where(Job.id == lease.job_id).values(ended_at=func.now() - timedelta(days=31)))
        leases.quarantine(session, lease.attempt_id, host="ha")
    assert ended_long_ago() == {old}  # a process of it may still be there
    with sessions.begin() as session:
        session.execute(update(Attempt).values(ended_at=func.now()))
        leases.release(session, lease.attempt_id)
    assert ended_long_ago() == {old, lease.job_id}


def entries(sessions: Sessions, days_ago: float, count: int) -> None:
    with sessions.begin() as session:
        at = session.execute(select(func.now() - timedelta(days=days_ago))).scalar_one()
        rows = [{"actor": "alice", "action": "job.cancelled", "at": at, "data": {"days": days_ago}}] * count
        session.execute(insert(AuditEntry), rows)


def test_old_audit_entries_are_removed_in_batches(sessions: Sessions) -> None:
    entries(sessions, 364, 3)
    entries(sessions, 366, 5001)  # written later than those that stay
    batches = []
    for _ in range(3):
        with sessions.begin() as session:
            batches.append(retention.remove_audit(session, keep_days=365))

    assert batches == [True, False, False]
    with sessions() as session:
        assert [row["days"] for row in session.scalars(select(AuditEntry.data))] == [364] * 3


def test_old_hours_of_usage_are_removed_in_batches(sessions: Sessions, tmp_path: Path) -> None:
    with sessions.begin() as session:
        now = session.execute(select(func.now())).scalar_one()
        rows = [
            {"project": "default", "user_name": f"user {user}", "hour": now - timedelta(days=days), "slot_seconds": 1.0}
            for days, users in ((91, 5001), (89, 2), (0, 1))
            for user in range(users)
        ]
        session.execute(insert(UsageHour), rows)
    with sessions.begin() as session:
        assert retention.take_lock(session)
        assert retention.remove_usage_hours(session, keep_days=90)
        session.rollback()
    Retention(sessions, Settings(state_dir=tmp_path)).tidy()
    with sessions() as session:
        left = session.scalars(select(UsageHour.hour).order_by(UsageHour.hour)).all()
    assert [(now - hour).days for hour in left] == [89, 89, 0]


def a_token(
    sessions: Sessions, kind: Kind, *, ended_days_ago: float | None, how: str, created_by: str | None = None
) -> str:
    text = f"hora_{kind}{ended_days_ago}{how}{created_by}"
    with sessions.begin() as session:
        token_id = store_token(session, text, user="alice", scope=Scope.READ, kind=kind, created_by=created_by)
        if ended_days_ago is not None:
            at = func.now() - timedelta(days=ended_days_ago)
            session.execute(update(Token).where(Token.id == token_id).values({how: at}))
    return token_id


def test_tokens_links_and_sessions_that_ended_long_ago_are_removed(sessions: Sessions) -> None:
    stay = {
        a_token(sessions, "bearer", ended_days_ago=400, how="revoked_at"),
        a_token(sessions, "bearer", ended_days_ago=400, how="expires_at"),
        a_token(sessions, "bearer", ended_days_ago=29, how="revoked_at", created_by="other"),
        a_token(sessions, "bearer", ended_days_ago=None, how="", created_by="other"),
        a_token(sessions, "session", ended_days_ago=29, how="expires_at"),
        a_token(sessions, "session", ended_days_ago=None, how=""),
        a_token(sessions, "login", ended_days_ago=29, how="revoked_at"),
    }
    for kind in ("session", "login", "bearer"):
        for how in ("expires_at", "revoked_at"):
            a_token(sessions, kind, ended_days_ago=31, how=how, created_by="other")  # type: ignore[arg-type]
    with sessions.begin() as session:
        assert not retention.remove_tokens(session, keep_days=30)

    with sessions() as session:
        assert set(session.scalars(select(Token.id))) == stay
