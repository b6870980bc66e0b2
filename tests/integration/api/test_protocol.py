"""HTTP to the letter: compression, HEAD, old keys, pages of short lists, and polls, which FastAPI never sees."""

from collections.abc import Callable
from datetime import timedelta

from fastapi import FastAPI
from fastapi.responses import StreamingResponse
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import IdempotencyKey
from jobs.lifecycle import retention
from tests.integration.api.answers import pages_of
from tests.integration.api.starting_rows import SPEC, a_host

Submit = Callable[..., str]


def test_large_answers_are_compressed_on_request(api: TestClient, submit_job: Submit) -> None:
    url = f"/v1/jobs/{submit_job()}"
    plain = api.get(url, headers={"Accept-Encoding": "identity"})
    compressed = api.get(url, headers={"Accept-Encoding": "gzip"})

    assert "content-encoding" not in plain.headers
    assert compressed.headers["content-encoding"] == "gzip"
    assert int(compressed.headers["content-length"]) < int(plain.headers["content-length"])
    assert compressed.json() == plain.json()
    assert compressed.headers["etag"] == plain.headers["etag"]
    assert compressed.headers["vary"] == plain.headers["vary"] == "Accept-Encoding"
    known = api.get(url, headers={"Accept-Encoding": "gzip", "If-None-Match": compressed.headers["etag"]})
    assert (known.status_code, known.content) == (304, b"")


def test_small_answers_and_streams_are_not_compressed(api: TestClient, app: FastAPI) -> None:
    def stream() -> StreamingResponse:
        return StreamingResponse(iter(["data: x\n\n"] * 1000), media_type="text/event-stream")

    app.add_api_route("/stream", stream)
    for path in ("/healthz", "/stream"):
        answer = api.get(path, headers={"Accept-Encoding": "gzip"})
        assert answer.status_code == 200
        assert "content-encoding" not in answer.headers


def test_head_answers_like_get_without_the_body(api: TestClient, submit_job: Submit) -> None:
    job = f"/v1/jobs/{submit_job()}"
    for path in (job, "/v1/jobs", "/v1/jobs/0000", "/v1/hosts", "/healthz", "/nowhere"):
        asked, answered = api.head(path), api.get(path)
        assert (asked.status_code, asked.content) == (answered.status_code, b"")
        for name in ("content-type", "content-length", "etag", "cache-control"):
            if path != "/v1/hosts" and answered.status_code == 200:
                assert asked.headers.get(name) == answered.headers.get(name)
    assert api.head(job, headers={"If-None-Match": api.head(job).headers["etag"]}).status_code == 304
    assert 'method="HEAD",route="/v1/jobs/{job_id}",status="200"' in api.get("/metrics").text
    assert api.head("/v1/jobs", headers={"Authorization": ""}).status_code == 401
    wrong = api.head(f"{job}/cancel")
    assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")


def test_old_idempotency_keys_are_removed(api: TestClient, sessions: Sessions) -> None:
    for key in ("old", "new"):
        api.post("/v1/jobs", json=SPEC, headers={"Idempotency-Key": key})
    with sessions.begin() as session:
        old = func.now() - timedelta(days=8)
        session.execute(update(IdempotencyKey).where(IdempotencyKey.key == "old").values(created_at=old))
    with sessions.begin() as session:
        assert retention.remove_idempotency_keys(session, keep_days=7) is False
        assert session.scalars(select(IdempotencyKey.key)).all() == ["new"]


def test_short_lists_have_pages_too(api: TestClient, sessions: Sessions) -> None:
    for name in ("hc", "ha", "hb"):
        a_host(sessions, name, slots=1)
    for path in ("/v1/hosts", "/v1/models"):
        whole, pages = ([[one["name"] for one in page] for page in pages_of(api, path, limit=n)] for n in (500, 2))
        assert ([name for page in pages for name in page], len(pages[0])) == (whole[0], 2)
        assert whole == [sorted(whole[0])]


def test_each_poll_is_charged_once_whether_something_changed_or_not(
    api: TestClient, client_of: Callable[..., TestClient], submit_job: Submit
) -> None:
    path = f"/v1/jobs/{submit_job()}"
    known = {"If-None-Match": api.get(path).headers["etag"], "X-Request-Id": "mine"}
    # One request, and the next one after 1,000 s: a poll that was charged twice would be refused, however slow this is.
    same_client, other_client = (client_of(user, "read", rate_limit_per_s=0.001) for user in ("ann", "ben"))
    answer, refused = (same_client.get(path, headers=known) for _ in range(2))
    assert (answer.status_code, answer.content, refused.status_code) == (304, b"", 429)
    assert (answer.headers["etag"], answer.headers["x-request-id"]) == tuple(known.values())
    assert answer.headers["x-content-type-options"] == "nosniff"
    stale = {"If-None-Match": 'W/"1-0"'}
    assert [other_client.get(path, headers=stale).status_code for _ in range(2)] == [200, 429]
    counted = 'hora_http_request_duration_seconds_count{method="GET",route="/v1/jobs/{job_id}",status="304"} 1.0'
    assert counted in api.get("/metrics").text
