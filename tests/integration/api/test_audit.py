"""The audit log: who logged in, what writes no entry, and how entries are read in pages.

What each route that changes something writes: `rights/table.py`.
"""

from datetime import UTC, datetime, timedelta
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry
from jobs.people import audit
from jobs.people.audit import Actor
from tests.integration.api.answers import pages_of
from tests.integration.api.starting_rows import SPEC


def entries(sessions: Sessions) -> list[AuditEntry]:
    with sessions() as session:
        return list(session.scalars(select(AuditEntry).order_by(AuditEntry.id)))


def test_login_and_logout_write_audit_entries(api: TestClient, browser: TestClient, sessions: Sessions) -> None:
    assert browser.get(api.post("/v1/login-links").json()["path"]).status_code == 303
    token_id = browser.get("/v1/me").json()["token_id"]
    own = {"X-CSRF-Token": browser.cookies["hora_csrf"], "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/logout", headers=own).status_code == 204
    written = [(one.action, one.subject, one.actor, one.token_id, one.address) for one in entries(sessions)[-2:]]
    by = ("admin", "admin", token_id, "testclient")
    assert written == [("session.started", *by), ("session.ended", *by)]


def test_wrong_dry_and_repeated_requests_write_no_audit_entry(api: TestClient, sessions: Sessions) -> None:
    headers = {"Idempotency-Key": "once"}
    assert api.post("/v1/jobs", json=SPEC, headers=headers).status_code == 201
    before = len(entries(sessions))
    assert api.post("/v1/jobs/0000/cancel").status_code == 404
    assert api.post("/v1/jobs", json={**SPEC, "gpus": 0}).status_code == 422
    assert api.post("/v1/jobs", json=SPEC, params={"dry_run": True}).status_code == 200
    assert api.post("/v1/jobs", json=SPEC, headers=headers).headers["Idempotency-Replayed"] == "true"
    assert api.delete(f"/v1/tokens/{api.get('/v1/me').json()['token_id']}").status_code == 409
    assert len(entries(sessions)) == before


def test_the_log_is_read_newest_first_and_filtered(api: TestClient, sessions: Sessions) -> None:
    with sessions.begin() as session:
        for number in range(6):
            actor = Actor("alice" if number % 2 else "ben", request_id=f"r{number}")
            audit.record(
                session, actor, "job.cancelled" if number < 4 else "job.paused", f"job{number % 3}", why=number
            )
    for number, entry in enumerate(entries(sessions)):
        with sessions.begin() as session:
            at = datetime(2030, 1, 1, tzinfo=UTC) + timedelta(hours=number // 2)  # two at the same moment
            session.execute(update(AuditEntry).where(AuditEntry.id == entry.id).values(at=at))

    def entry_numbers(**query: Any) -> list[str]:
        """The numbers of the entries, of all pages."""
        return [str(one["data"]["why"]) for page in pages_of(api, "/v1/audit", limit=2, **query) for one in page]

    assert entry_numbers() == list("543210")
    assert entry_numbers(actor="alice") == list("531")
    assert entry_numbers(action="job.paused") == list("54")
    assert entry_numbers(subject="job1") == list("41")
    assert entry_numbers(actor="ben", action="job.cancelled") == list("20")
    assert entry_numbers(since="2030-01-01T01:00:00Z") == list("5432")
    assert entry_numbers(until="2030-01-01T01:00:00Z") == list("10")
    assert entry_numbers(since="2030-01-01T02:00:00+01:00", until="2030-01-01T02:00:00Z") == list("32")
    assert entry_numbers(actor="nobody") == []
    for wrong in ({"since": "yesterday"}, {"since": "2030-01-01T01:00:00"}, {"until": "1"}, {"cursor": "x"}):
        assert api.get("/v1/audit", params=wrong).status_code == 422, wrong
