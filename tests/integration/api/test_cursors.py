"""Cursors and event ids that the service did not make are refused at their field, on every list and every stream."""

import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import delete, select

from api.main import app_for
from jobs.db.cursors import as_text
from jobs.db.engine import Sessions
from jobs.db.signing import signature
from jobs.db.tables import SigningKey
from jobs.insight.articles.store import ArticleFilter
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN

OF_JOBS = json.dumps(["jobs", "-created_at", [], [], *[None] * 6, "None", "None"])
NEEDED = {"/v1/jobs/groups": {"by": "owner"}}  # what a list cannot do without
# The route of each list, and what its cursors are signed with. A new list gets its row here.
LISTS = {
    "/v1/hosts": "hosts",
    "/v1/studies": "studies",
    "/v1/projects": "projects",
    "/v1/users": "users",
    "/v1/tokens": "tokens None admin",
    "/v1/datasets": "datasets",
    "/v1/datasets/{dataset}": "dataset versions chips",
    "/v1/uploads": "uploads admin",
    "/v1/articles": f"articles {ArticleFilter()!r}",
    "/v1/views": "views 'admin' None",
    "/v1/webhooks": "webhooks None",
    "/v1/webhooks/{webhook_id}/deliveries": "deliveries {webhook_id}",
    "/v1/audit": json.dumps(["audit", None, None, None, None, None]),
    "/v1/models": "models",
    "/v1/jobs": OF_JOBS,
    "/v1/jobs/groups": json.dumps(["groups", ["owner"], None, OF_JOBS]),
    "/v1/queue": json.dumps(["queue", None, None]),
    "/v1/jobs/{job_id}/events": "events {job_id}",
    "/v1/jobs/{job_id}/attempts": "attempts {job_id}",
    "/v1/jobs/{job_id}/artifacts": "artifacts {job_id}",
    "/v1/jobs/{job_id}/media": "media {job_id}",
    "/v1/jobs/{job_id}/checkpoints": "checkpoints {job_id}",
}
PAYLOADS = [
    b"{", b"[]", b"{}", b"5", b"null", b"[null]", b"[{}]", b"[[]]", b"[1e999]", b"[1180591620717411303424]", b"[-1]",
    b'["\\u0000"]', b'["\\ud800"]', b'["x", 5]', b'["2020-01-01", 5]', b"[true]", b"[" * 600, b"\xff", b"",
]  # fmt: skip


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, store=f"file://{tmp_path}/store")


@pytest.fixture
def ids(api: TestClient, submit_job: Callable[..., str]) -> dict[str, str]:
    webhook = {"url": "https://example.com/hook", "events": ["job.ended"]}
    answer = api.post("/v1/webhooks", json=webhook)
    assert answer.status_code == 201, answer.text
    return {"job_id": submit_job(), "webhook_id": answer.json()["id"], "dataset": "chips"}


def lists_of(app: FastAPI) -> Iterator[str]:
    for path, methods in app.openapi()["paths"].items():
        if any(parameter["name"] == "cursor" for parameter in methods.get("get", {}).get("parameters", [])):
            yield path


def test_every_list_is_tested(app: FastAPI) -> None:
    assert set(lists_of(app)) == set(LISTS)


@pytest.mark.parametrize("path", LISTS)
def test_a_cursor_that_the_service_did_not_make_is_refused(
    api: TestClient, sessions: Sessions, ids: dict[str, str], path: str
) -> None:
    address, identity = path.format(**ids), LISTS[path].format(**ids)
    with sessions() as session:
        signed = [as_text(signature(session, payload, of=identity) + payload) for payload in PAYLOADS]
    with_checksum = [as_text(checksum(payload, identity) + payload) for payload in [*PAYLOADS, b'["x"]', b"[1]"]]
    for cursor in [*signed, *with_checksum, "x", "é", "\x00", "=", "A" * 1000]:
        answer = api.get(address, params=NEEDED.get(path, {}) | {"cursor": cursor})
        assert answer.status_code == 422, f"{cursor[:40]}: {answer.text}"
        assert [error["field"] for error in answer.json()["errors"]] == ["cursor"]
    conditional = api.get(
        address, params=NEEDED.get(path, {}) | {"cursor": signed[0]}, headers={"If-None-Match": 'W/"x"'}
    )
    assert conditional.status_code == 422


def checksum(payload: bytes, identity: str) -> bytes:
    """With which an earlier version made cursors."""
    return hashlib.sha256(identity.encode() + b"\0" + payload).digest()[:6]


def test_a_signed_position_is_read(api: TestClient, sessions: Sessions, ids: dict[str, str]) -> None:
    """So that the test above refuses for the right reason: these cursors differ from its own only in the position."""
    right = {
        b'["a"]': ["/v1/hosts", "/v1/projects", "/v1/users", "/v1/datasets", "/v1/uploads", "/v1/webhooks",
                   "/v1/views", "/v1/models", "/v1/jobs/{job_id}/artifacts", "/v1/jobs/{job_id}/media",
                   "/v1/jobs/groups"],
        b"[1]": ["/v1/webhooks/{webhook_id}/deliveries", "/v1/jobs/{job_id}/events", "/v1/jobs/{job_id}/attempts",
                 "/v1/datasets/{dataset}"],
        b"[1, 1]": ["/v1/jobs/{job_id}/checkpoints"],
        b'["2030-01-01T00:00:00.000001Z", "a"]': ["/v1/studies", "/v1/tokens", "/v1/jobs", "/v1/articles"],
        b'["2030-01-01T00:00:00.000001Z", 1]': ["/v1/audit"],
        b'[false, 50, "default", "a", 0, "2030-01-01T00:00:00.000001Z", "a"]': ["/v1/queue"],
    }  # fmt: skip
    assert sorted(path for paths in right.values() for path in paths) == sorted(LISTS)
    for payload, paths in right.items():
        for path in paths:
            with sessions() as session:
                cursor = as_text(signature(session, payload, of=LISTS[path].format(**ids)) + payload)
            query = NEEDED.get(path, {}) | {"cursor": cursor}
            assert api.get(path.format(**ids), params=query).status_code == 200, path


def test_a_cursor_is_read_by_another_api_and_after_a_restart(
    api: TestClient, configuration: Settings, submit_job: Callable[..., str], sessions: Sessions
) -> None:
    job_ids = [submit_job() for _ in range(3)]
    first = api.get("/v1/jobs", params={"limit": 1}).json()
    for _ in range(2):
        with TestClient(app_for(configuration), headers={"Authorization": f"Bearer {TOKEN}"}) as other:
            second = other.get("/v1/jobs", params={"limit": 1, "cursor": first["next_cursor"]}).json()
            third = api.get("/v1/jobs", params={"limit": 1, "cursor": second["next_cursor"]}).json()
            pages = [first, second, third]
            assert [page["items"][0]["id"] for page in pages] == job_ids[::-1]
            assert third["next_cursor"] is None


def test_a_cursor_is_not_read_by_another_service(
    api: TestClient, configuration: Settings, submit_job: Callable[..., str], sessions: Sessions
) -> None:
    submit_job(), submit_job()
    cursor = api.get("/v1/jobs", params={"limit": 1}).json()["next_cursor"]
    with sessions.begin() as session:
        session.execute(delete(SigningKey))
        session.add(SigningKey(key=b"another key" * 3))
    with TestClient(app_for(configuration), headers={"Authorization": f"Bearer {TOKEN}"}) as other:
        assert other.get("/v1/jobs", params={"limit": 1, "cursor": cursor}).status_code == 422


def test_the_key_is_random_and_in_no_answer(api: TestClient, sessions: Sessions, ids: dict[str, str]) -> None:
    with sessions() as session:
        key = session.scalars(select(SigningKey.key)).one()
    assert len(key) == 32
    assert len(set(key)) > 10
    texts = [api.get(path.format(**ids), params={"limit": 1}).text for path in LISTS]
    assert not any(key.hex() in text or as_text(key) in text for text in texts)


STREAMS = {"/v1/events": "all jobs", "/v1/jobs/{job_id}/events": "{job_id}"}


@pytest.mark.parametrize("path", STREAMS)
def test_an_event_id_that_is_no_position_is_refused(api: TestClient, ids: dict[str, Any], path: str) -> None:
    address, identity = path.format(**ids), f"live {STREAMS[path].format(**ids)}"
    with_checksum = [as_text(checksum(payload, identity) + payload) for payload in PAYLOADS]
    for event_id in [*with_checksum, "x", "=", "A" * 1000]:
        headers = {"Accept": "text/event-stream", "Last-Event-ID": event_id}
        answer = api.get(address, headers=headers)
        assert answer.status_code == 422, f"{event_id[:40]}: {answer.text}"
        assert [error["field"] for error in answer.json()["errors"]] == ["Last-Event-ID"]
