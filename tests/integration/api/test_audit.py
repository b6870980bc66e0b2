"""Every change writes an audit entry in its own transaction. The entries are read in pages.

A new route that changes something gets a line in `CHANGES`, or one in `EXEMPT` with its reason.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry, Host
from jobs.people import audit
from jobs.people.audit import Actor
from jobs.runtime.settings import Settings
from tests.integration.api.answers import pages_of
from tests.integration.api.starting_rows import SPEC, TOKEN, a_host
from tests.integration.api.walk import SAFE, closed_routes

Clients = Callable[..., TestClient]


@dataclass(frozen=True)
class Change:
    """A route that changes something, and what it writes. `{name}` is the id in the answer of the route `name`."""

    route: str
    request: str  # method and path
    action: str
    subject: str | None
    body: dict[str, Any] | None = None


CHANGES = [
    Change("submit_job", "POST /v1/jobs", "job.submitted", "{submit_job}", SPEC),
    Change("clone_job", "POST /v1/jobs/{submit_job}/clone", "job.cloned", "{clone_job}"),
    Change("change_job", "PATCH /v1/jobs/{submit_job}", "job.changed", "{submit_job}", {"priority": 80}),
    Change("pause_job", "POST /v1/jobs/{submit_job}/pause", "job.paused", "{submit_job}"),
    Change("resume_job", "POST /v1/jobs/{submit_job}/resume", "job.resumed", "{submit_job}"),
    Change("cancel_job", "POST /v1/jobs/{submit_job}/cancel", "job.cancelled", "{submit_job}"),
    Change("remove_artifacts", "DELETE /v1/jobs/{submit_job}/artifacts", "job.artifacts_removed", "{submit_job}"),
    Change("delete_job", "DELETE /v1/jobs/{submit_job}", "job.deleted", "{submit_job}"),
    Change(
        "submit_study", "POST /v1/studies", "study.submitted", "{submit_study}",
        {"name": "grid", "base": SPEC, "grid": {"batch_size": [32, 64]}},
    ),
    Change("add_note", "POST /v1/studies/{submit_study}/notes", "study.noted", "{submit_study}", {"text": "so far"}),
    Change("pause_study", "POST /v1/studies/{submit_study}/pause", "study.paused", "{submit_study}"),
    Change("resume_study", "POST /v1/studies/{submit_study}/resume", "study.resumed", "{submit_study}"),
    Change("cancel_study", "POST /v1/studies/{submit_study}/cancel", "study.cancelled", "{submit_study}"),
    Change("drain_host", "POST /v1/hosts/ha/drain", "host.drained", "ha"),
    Change("undrain_host", "POST /v1/hosts/ha/undrain", "host.undrained", "ha"),
    Change("forget_host", "DELETE /v1/hosts/ha", "host.forgotten", "ha"),
    Change("create_token", "POST /v1/tokens", "token.created", "{create_token}", {"name": "x", "user": "alice"}),
    Change("revoke_token", "DELETE /v1/tokens/{create_token}", "token.revoked", "{create_token}"),
    Change("change_user", "PATCH /v1/users/alice", "user.disabled", "alice", {"disabled": True}),
    Change("change_user", "PATCH /v1/users/alice", "user.enabled", "alice", {"disabled": False}),
    Change("create_login_link", "POST /v1/login-links", "login_link.created", "admin"),
    Change("create_project", "POST /v1/projects", "project.created", "vision", {"name": "vision"}),
    Change("change_project", "PATCH /v1/projects/vision", "project.changed", "vision", {"max_slots": 4}),
    Change(
        "change_study", "PATCH /v1/studies/{submit_study}", "study.changed", "{submit_study}", {"project": "vision"},
    ),
    Change("delete_study", "DELETE /v1/studies/{submit_study}", "study.deleted", "{submit_study}"),
    Change("add_project_member", "PUT /v1/projects/vision/members/alice", "project.member_added", "vision"),
    Change("remove_project_member", "DELETE /v1/projects/vision/members/alice", "project.member_removed", "vision"),
    Change("create_view", "POST /v1/views", "view.created", "{create_view}", {"name": "mine"}),
    Change("change_view", "PATCH /v1/views/{create_view}", "view.changed", "{create_view}", {"name": "ours"}),
    Change("delete_view", "DELETE /v1/views/{create_view}", "view.deleted", "{create_view}"),
    Change(
        "create_webhook", "POST /v1/webhooks", "webhook.created", "{create_webhook}",
        {"url": "https://ci.example.com/hooks/hora"},
    ),
    Change(
        "change_webhook", "PATCH /v1/webhooks/{create_webhook}", "webhook.changed", "{create_webhook}",
        {"disabled": False},
    ),
    Change("test_webhook", "POST /v1/webhooks/{create_webhook}/test", "webhook.tested", "{create_webhook}"),
    Change(
        "redeliver_delivery", "POST /v1/webhooks/{create_webhook}/deliveries/{test_webhook}/redeliver",
        "webhook.redelivered", "{create_webhook}",
    ),
    Change("delete_webhook", "DELETE /v1/webhooks/{create_webhook}", "webhook.deleted", "{create_webhook}"),
    Change("create_article", "POST /v1/articles", "article.created", "{create_article}", {"title": "x"}),
    Change(
        "change_article", "PATCH /v1/articles/{create_article}", "article.changed", "{create_article}",
        {"version": 1, "text": "new"},
    ),
    Change("delete_article", "DELETE /v1/articles/{create_article}", "article.deleted", "{create_article}"),
    Change(
        "start_upload", "POST /v1/uploads", "upload.started", "{start_upload}",
        {"filename": "chips.zip", "size_bytes": 100},
    ),
    Change("remove_upload", "DELETE /v1/uploads/{start_upload}", "upload.removed", "{start_upload}"),
    Change(
        "register_dataset", "POST /v1/datasets", "dataset.registered", "chips@1",
        {"name": "chips", "source": "{data_root}/chips"},
    ),
    Change("remove_dataset_version", "DELETE /v1/datasets/chips/versions/1", "dataset.removed", "chips@1"),
]  # fmt: skip
EXEMPT = {
    "put_upload_content": "one of thousands of pieces of an upload, whose start and whose dataset are recorded",
    "import_run": "tested with a run: tests/integration/api/test_imports.py",
    "send_code": "tested where code may be sent: tests/integration/api/test_code.py",
}


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    (tmp_path / "chips").mkdir()
    root, home = str(tmp_path), tmp_path / "home"
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, data_roots=root, home=home)


def entries(sessions: Sessions) -> list[AuditEntry]:
    with sessions() as session:
        return list(session.scalars(select(AuditEntry).order_by(AuditEntry.id)))


def test_every_change_writes_an_audit_entry(api: TestClient, app: FastAPI, sessions: Sessions, tmp_path: Path) -> None:
    changing = {route.name for route in closed_routes(app) if route.method not in SAFE}
    assert changing == {change.route for change in CHANGES} | EXEMPT.keys()
    a_host(sessions, "ha")
    me = api.get("/v1/me").json()["token_id"]
    values = {"data_root": str(tmp_path)}
    for change in CHANGES:
        if change.route == "forget_host":
            with sessions.begin() as session:
                session.execute(update(Host).values(heartbeat_at=func.now() - timedelta(days=1)))
        before = len(entries(sessions))
        method, path = change.request.split()
        body = change.body and {name: _filled(value, values) for name, value in change.body.items()}
        answer = api.request(method, path.format(**values), json=body, headers={"X-Request-ID": f"of-{change.route}"})
        assert answer.status_code in (200, 201, 202, 204), f"{change}: {answer.text}"
        document = answer.json() if answer.content else {}
        values |= {change.route: str(document["id"])} if "id" in document else {}

        written = entries(sessions)[before:]
        assert [entry.action for entry in written] == [change.action], change
        (entry,) = written
        assert entry.subject == (change.subject and change.subject.format(**values)), change
        assert (entry.actor, entry.token_id) == ("admin", me)
        assert (entry.request_id, entry.address) == (f"of-{change.route}", "testclient")


def _filled(value: Any, known: dict[str, str]) -> Any:
    return value.format(**known) if isinstance(value, str) else value


def test_login_and_logout_write_audit_entries(api: TestClient, app: FastAPI, sessions: Sessions) -> None:
    """/login and /logout are outside /v1, so the walk over the routes does not cover them."""
    browser = TestClient(app, follow_redirects=False)
    browser.portal = api.portal
    assert browser.get(api.post("/v1/login-links").json()["path"]).status_code == 303
    session = browser.get("/v1/me").json()["token_id"]
    own = {"X-CSRF-Token": browser.cookies["hora_csrf"], "Sec-Fetch-Site": "same-origin"}
    assert browser.post("/logout", headers=own).status_code == 204

    written = entries(sessions)[-2:]
    assert [(entry.action, entry.subject) for entry in written] == [
        ("session.started", "admin"), ("session.ended", "admin"),
    ]  # fmt: skip
    assert {(entry.actor, entry.token_id, entry.address) for entry in written} == {("admin", session, "testclient")}


def test_refused_dry_and_repeated_requests_write_no_audit_entry(
    api: TestClient, client_of: Clients, sessions: Sessions, submit_job: Callable[..., str]
) -> None:
    job = submit_job()
    headers = {"Idempotency-Key": "once"}
    assert api.post("/v1/jobs", json=SPEC, headers=headers).status_code == 201
    before = len(entries(sessions))
    otto = client_of("otto")

    assert otto.post(f"/v1/jobs/{job}/cancel").status_code == 403
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
