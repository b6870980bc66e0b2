"""Cursors and event ids that the service did not make are refused at their field, on every list and every stream."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import select

from jobs.db.cursors import as_text
from jobs.db.engine import Sessions
from jobs.db.signing import signature
from jobs.db.tables import SigningKey
from jobs.insight.articles.store import ArticleFilter
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import TOKEN, client_with

OF_JOBS = json.dumps(["jobs", "-created_at", [], [], *[None] * 6, "None", "None"])
NEEDED = {"/v1/jobs/groups": {"by": "owner"}}  # what a list cannot do without
NAME, NUMBER, TIME = b'["a"]', b"[1]", b'["2030-01-01T00:00:00.000001Z", "a"]'
IN_QUEUE = b'[false, 50, "default", "a", 0, "2030-01-01T00:00:00.000001Z", "a"]'
# The route of each list, what its cursors are signed with, and a position in it. A new list gets its row here.
LISTS = {
    "/v1/hosts": ("hosts", NAME),
    "/v1/studies": ("studies", TIME),
    "/v1/projects": ("projects", NAME),
    "/v1/users": ("users", NAME),
    "/v1/tokens": ("tokens None admin", TIME),
    "/v1/datasets": ("datasets", NAME),
    "/v1/datasets/{dataset}": ("dataset versions chips", NUMBER),
    "/v1/uploads": ("uploads admin", NAME),
    "/v1/articles": (f"articles {ArticleFilter()!r}", TIME),
    "/v1/views": ("views 'admin' None", NAME),
    "/v1/webhooks": ("webhooks None", NAME),
    "/v1/webhooks/{webhook_id}/deliveries": ("deliveries {webhook_id}", NUMBER),
    "/v1/audit": (json.dumps(["audit", None, None, None, None, None]), b'["2030-01-01T00:00:00.000001Z", 1]'),
    "/v1/models": ("models", NAME),
    "/v1/jobs": (OF_JOBS, TIME),
    "/v1/jobs/groups": (json.dumps(["groups", ["owner"], None, OF_JOBS]), NAME),
    "/v1/queue": (json.dumps(["queue", None, None]), IN_QUEUE),
    "/v1/jobs/{job_id}/events": ("events {job_id}", NUMBER),
    "/v1/jobs/{job_id}/attempts": ("attempts {job_id}", NUMBER),
    "/v1/jobs/{job_id}/artifacts": ("artifacts {job_id}", NAME),
    "/v1/jobs/{job_id}/media": ("media {job_id}", NAME),
    "/v1/jobs/{job_id}/checkpoints": ("checkpoints {job_id}", b"[1, 1]"),
}
STREAMS = {"/v1/events": "all jobs", "/v1/jobs/{job_id}/events": "{job_id}"}
FOREIGN = [b"null", b"[{}]", b'["\\u0000"]', b"[1180591620717411303424]"]  # positions of no list


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, store=f"file://{tmp_path}/store")


@pytest.fixture
def ids(api: TestClient, submit_job: Callable[..., str]) -> dict[str, str]:
    webhook = {"url": "https://example.com/hook", "events": ["job.ended"]}
    answer = api.post("/v1/webhooks", json=webhook)
    assert answer.status_code == 201, answer.text
    return {"job_id": submit_job(), "webhook_id": answer.json()["id"], "dataset": "chips"}


def test_a_cursor_that_the_service_did_not_make_is_refused_by_every_list(
    api: TestClient, app: FastAPI, sessions: Sessions, ids: dict[str, str]
) -> None:
    """How cursors are damaged: `tests/unit/jobs/db/test_cursors.py`."""
    with_cursors = {
        path
        for path, methods in app.openapi()["paths"].items()
        if any(parameter["name"] == "cursor" for parameter in methods.get("get", {}).get("parameters", []))
    }
    assert with_cursors == set(LISTS)
    for path, (named, right) in LISTS.items():
        address, identity, needed = path.format(**ids), named.format(**ids), NEEDED.get(path, {})
        with sessions() as session:
            own, *signed = [as_text(signature(session, each, of=identity) + each) for each in (right, *FOREIGN)]
        assert api.get(address, params=needed | {"cursor": own}).status_code == 200, path
        for cursor in [*signed, as_text(checksum(right, identity) + right), "x", "é", "\x00"]:
            for known in ({}, {"If-None-Match": 'W/"x"'}):
                answer = api.get(address, params=needed | {"cursor": cursor}, headers=known)
                assert answer.status_code == 422, f"{path} {cursor[:40]}: {answer.text}"
                assert [error["field"] for error in answer.json()["errors"]] == ["cursor"]
    for path, named in STREAMS.items():
        identity = f"live {named.format(**ids)}"
        for event_id in [*(as_text(checksum(payload, identity) + payload) for payload in FOREIGN), "x", "A" * 1000]:
            headers = {"Accept": "text/event-stream", "Last-Event-ID": event_id}
            answer = api.get(path.format(**ids), headers=headers)
            assert answer.status_code == 422, f"{event_id[:40]}: {answer.text}"
            assert [error["field"] for error in answer.json()["errors"]] == ["Last-Event-ID"]


def checksum(payload: bytes, identity: str) -> bytes:
    """With which an earlier version made cursors."""
    return hashlib.sha256(identity.encode() + b"\0" + payload).digest()[:6]


def test_a_cursor_is_read_by_another_api_and_after_a_restart(
    api: TestClient, configuration: Settings, submit_job: Callable[..., str], sessions: Sessions
) -> None:
    job_ids = [submit_job() for _ in range(3)]
    first = api.get("/v1/jobs", params={"limit": 1}).json()
    for _ in range(2):
        with client_with(configuration) as other:
            second = other.get("/v1/jobs", params={"limit": 1, "cursor": first["next_cursor"]}).json()
            third = api.get("/v1/jobs", params={"limit": 1, "cursor": second["next_cursor"]}).json()
            pages = [first, second, third]
            assert [page["items"][0]["id"] for page in pages] == job_ids[::-1]
            assert third["next_cursor"] is None


def test_the_key_is_random_and_in_no_answer(api: TestClient, sessions: Sessions, ids: dict[str, str]) -> None:
    with sessions() as session:
        key = session.scalars(select(SigningKey.key)).one()
    assert (len(key), len(set(key)) > 10) == (32, True)
    texts = [api.get(path.format(**ids), params={"limit": 1}).text for path in LISTS]
    assert not any(key.hex() in text or as_text(key) in text for text in texts)
