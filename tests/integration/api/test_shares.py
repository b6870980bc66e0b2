"""The shares of a user: notes, queued jobs, tokens, login links, datasets, changes, and time of the service."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, insert, select, update

from api import costs
from jobs.data import versions
from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry, StudyNote, Token
from jobs.insight.studies import store
from jobs.model.scopes import Scope
from jobs.people import rights
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings
from tests.integration.api import answers
from tests.integration.api.answers import created
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.integration.jobs.job_rows import count

Clients = Callable[..., TestClient]
MOST_QUEUED = 6


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    (tmp_path / "chips").mkdir()
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, data_roots=str(tmp_path), home=tmp_path / "home",
        max_queued_jobs=MOST_QUEUED,
    )  # fmt: skip


def problem(answer: Any, slug: str, status: int = 409) -> str:
    return str(answers.problem(answer, status, slug)["detail"])


def a_study(client: TestClient, cells: int = 2, **changes: Any) -> str:
    grid = {"batch_size": [8 * number for number in range(1, cells + 1)]}
    study_id: str = created(client, "/v1/studies", {"base": SPEC, "grid": grid, "max_jobs": 1000, **changes})["id"]
    return study_id


def test_notes_of_a_study_are_limited_in_number_and_in_size(client_of: Clients, sessions: Sessions) -> None:
    alice = client_of("alice")
    many, long = a_study(alice), a_study(alice)
    with sessions.begin() as session:
        row = {"author": "alice", "text": "short"}
        session.execute(insert(StudyNote), [row | {"study_id": many}] * store.MOST_NOTES)
        session.execute(insert(StudyNote), [row | {"study_id": long, "text": "x" * 10_000}] * 20)
    detail = problem(alice.post(f"/v1/studies/{many}/notes", json={"text": "one more"}), "too-many-notes")
    assert "200 notes, the most allowed" in detail
    detail = problem(alice.post(f"/v1/studies/{long}/notes", json={"text": "x" * 10_000}), "too-many-notes")
    assert "have 200,000 of 200,000 characters; this one has 10,000" in detail


def test_a_user_has_a_share_of_the_queue(client_of: Clients, api: TestClient) -> None:
    alice = client_of("alice")
    jobs = [alice.post("/v1/jobs", json=SPEC).json()["id"] for _ in range(MOST_QUEUED)]
    for path, body in (("/v1/jobs", SPEC), (f"/v1/jobs/{jobs[0]}/clone", {})):
        for query in ("", "?dry_run=true"):
            detail = problem(alice.post(path + query, json=body), "too-many-queued-jobs")
            assert detail.startswith("alice has 6 of 6 jobs in the queue: ")
    study = {"base": SPEC, "grid": {"batch_size": [8, 16]}}
    assert "this would add 2" in problem(alice.post("/v1/studies", json=study), "too-many-queued-jobs")
    assert client_of("bob").post("/v1/jobs", json=SPEC).status_code == 201
    assert [api.post("/v1/jobs", json=SPEC).status_code for _ in range(MOST_QUEUED + 1)] == [201] * (MOST_QUEUED + 1)
    for job_id in jobs[:4]:
        assert alice.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    study_id = a_study(alice, cells=4)
    alice.post(f"/v1/studies/{study_id}/cancel")
    assert alice.post("/v1/jobs", json=SPEC).status_code == 201
    detail = problem(alice.post(f"/v1/studies/{study_id}/resume"), "too-many-queued-jobs")
    assert detail.startswith("alice has 3 of 6 jobs in the queue; this would add 4: ")


def test_valid_tokens_and_new_tokens_of_a_day_are_limited(
    client_of: Clients, api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of("alice")
    last = alice.post("/v1/tokens", json={"name": "x", "scope": "read"}).json()["id"]
    with monkeypatch.context() as patched:
        patched.setattr(rights, "MOST_TOKENS", 2)
        refused = api.post("/v1/tokens", json={"name": "x", "user": "alice"})
        assert "2 valid tokens" in problem(refused, "too-many-tokens")
        assert alice.delete(f"/v1/tokens/{last}").status_code == 204
        assert api.post("/v1/tokens", json={"name": "x", "user": "alice"}).status_code == 201
    with sessions.begin() as session:
        rows = [
            {"sha256": f"{n:064}", "id": f"{n:012}", "user_name": "alice", "name": "", "scope": "read",
             "revoked_at": func.now()} for n in range(rights.MOST_NEW_TOKENS)
        ]  # fmt: skip
        for row in rows:
            session.execute(insert(Token).values(row))
    detail = problem(alice.post("/v1/tokens", json={"name": "one more", "scope": "read"}), "too-many-tokens")
    assert "500 tokens of alice were made within a day" in detail
    assert api.post("/v1/tokens", json={"name": "from an admin", "user": "alice"}).status_code == 201
    with sessions.begin() as session:
        session.execute(update(Token).values(created_at=func.now() - timedelta(days=2)))
    assert alice.post("/v1/tokens", json={"name": "one more", "scope": "read"}).status_code == 201


def test_a_new_login_link_replaces_the_oldest_open_one(
    client_of: Clients, api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = client_of("alice")
    links = [alice.post("/v1/login-links").json()["path"] for _ in range(rights.MOST_OPEN_LINKS + 1)]
    with sessions() as session:
        assert session.scalar(select(func.count()).where(Token.kind == "login")) == rights.MOST_OPEN_LINKS
    problem(api.get(links[0], follow_redirects=False), "login-refused", 403)
    assert [api.get(link, follow_redirects=False).status_code for link in links[1:4]] == [303] * 3
    monkeypatch.setattr(rights, "MOST_LOGINS", 22)
    answers = [alice.post("/v1/login-links") for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 409], "three were used, and nineteen are open"
    assert "alice used 22 login links" in problem(answers[-1], "too-many-logins")


def test_datasets_of_a_user_are_limited(client_of: Clients, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(versions, "MOST_VALIDATING", 2)
    alice = client_of("alice")
    answers = [alice.post("/v1/datasets", json={"name": "chips", "source": "chips"}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [201, 201, 409]
    assert "2 datasets of alice wait to be validated" in problem(answers[-1], "too-many-datasets")
    assert client_of("bob").post("/v1/datasets", json={"name": "chips", "source": "chips"}).status_code == 201
    monkeypatch.setattr(versions, "MOST_OF_AN_OWNER", 2)
    answer = alice.post("/v1/datasets", json={"name": "chips", "source": "chips"})
    assert "alice has registered 2 versions" in problem(answer, "too-many-datasets")


def test_repeated_changes_that_change_nothing_write_no_rows(client_of: Clients, sessions: Sessions) -> None:
    alice = client_of("alice")
    study_id, job_id = a_study(alice), alice.post("/v1/jobs", json=SPEC).json()["id"]
    token_id = alice.post("/v1/tokens", json={"name": "short", "scope": "read"}).json()["id"]
    before = count(sessions, AuditEntry)
    for path in (f"/v1/jobs/{job_id}/pause", f"/v1/jobs/{job_id}/cancel", f"/v1/studies/{study_id}/pause",
                 f"/v1/studies/{study_id}/cancel"):  # fmt: skip
        assert [alice.post(path).status_code for _ in range(3)] == [202] * 3
    assert [alice.delete(f"/v1/tokens/{token_id}").status_code for _ in range(3)] == [204] * 3
    assert count(sessions, AuditEntry) == before + 5


def test_requests_that_take_long_cost_more(
    client_of: Clients, submit_job: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(costs, "TURN_S_OF_A_REQUEST", 1e-5)
    study = {"base": SPEC, "grid": {"batch_size": [8, 16]}}
    events = f"/v1/jobs/{submit_job()}/events"
    clients = [client_of(user, rate_limit_per_s=5.0) for user in ("ann", "ben", "cid", "dan")]
    answers = [clients[0].post("/v1/studies?dry_run=true", json=study)]
    queries = ("", "?limit=101", "?limit=100")
    answers += [client.get(events + query) for client, query in zip(clients[1:], queries, strict=True)]
    assert [answer.status_code for answer in answers] == [200] * 4
    *dear, cheap = (client.get("/v1/me") for client in clients)
    assert cheap.status_code == 200, "the page of events was short"
    for answer in dear:
        assert "5 requests a second" in problem(answer, "rate-limited", 429)
        assert int(answer.headers["Retry-After"]) >= 10


def test_a_user_without_changes_can_still_end_what_they_began(client_of: Clients, app: FastAPI) -> None:
    alice, reader = client_of("alice"), client_of("alice", "read")
    assert reader.post("/v1/jobs", json=SPEC).status_code == 403
    app.state.services.limits.add_changes(Bearer("alice", "", "bearer", Scope.READ), 10**6)
    problem(reader.post("/v1/jobs", json=SPEC), "rate-limited", 429)
    study_id, job_id = a_study(alice), alice.post("/v1/jobs", json=SPEC).json()["id"]  # those of a reader do not count
    token_id = alice.post("/v1/tokens", json={"name": "lost", "scope": "read"}).json()["id"]
    app.state.services.limits.add_changes(Bearer("alice", "", "bearer", Scope.SUBMIT), 10**6)
    answer = alice.post("/v1/jobs", json=SPEC)
    assert "alice may make 100,000 changes a day; wait " in problem(answer, "rate-limited", 429)
    assert int(answer.headers["Retry-After"]) > 3600
    assert alice.post(f"/v1/jobs/{job_id}/pause").status_code == 429
    assert alice.post(f"/v1/jobs/{job_id}/cancel").status_code == 202
    assert alice.post(f"/v1/studies/{study_id}/cancel").status_code == 202
    assert alice.delete(f"/v1/tokens/{token_id}").status_code == 204
    assert alice.post("/logout").status_code == 204


def test_cells_of_a_study_have_a_largest_size(client_of: Clients) -> None:
    base = {**SPEC, "labels": {f"label-{n}": "x" * 255 for n in range(64)}, "name": "n" * 50_000}
    answer = client_of("alice").post("/v1/studies", json={"base": base, "grid": {"batch_size": [8, 16]}})
    assert "at most 65,536 are allowed" in problem(answer, "invalid-request", 422)
