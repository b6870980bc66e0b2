"""Old audit entries, usage, tokens, login links and sessions are removed; tokens that no other made stay."""

from datetime import timedelta
from pathlib import Path

from sqlalchemy import func, insert, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry, Token, UsageHour
from jobs.lifecycle import retention
from jobs.model.scopes import Scope
from jobs.people.tokens import Kind, store_token
from jobs.runtime.settings import Settings
from worker.retention import Retention


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
