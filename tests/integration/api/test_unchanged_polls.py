"""Unchanged polls never reach FastAPI, but still need a token and are limited, counted and answered like others."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

Submit = Callable[..., str]


@pytest.fixture
def path(submit_job: Submit) -> str:
    return f"/v1/jobs/{submit_job()}"


@pytest.fixture
def known_tag(api: TestClient, path: str) -> dict[str, str]:
    return {"If-None-Match": api.get(path).headers["etag"]}


def test_nobody_polls_without_a_token(api: TestClient, path: str, known_tag: dict[str, str]) -> None:
    for token in ("", "Bearer ", "Bearer hora_nobody", "Basic aG9yYQ=="):
        answer = api.get(path, headers={**known_tag, "Authorization": token})
        assert (answer.status_code, answer.json()["type"]) == (401, "urn:hora:problem:unauthorized")
        assert answer.headers["www-authenticate"].startswith("Bearer")


def test_each_poll_is_charged_once_whether_something_changed_or_not(
    client_of: Callable[..., TestClient], path: str, known_tag: dict[str, str]
) -> None:
    # One request, and the next one after 1,000 s: a poll that was charged twice would be refused, however slow this is.
    same_client, other_client = (client_of(user, "read", rate_limit_per_s=0.001) for user in ("ann", "ben"))
    assert [same_client.get(path, headers=known_tag).status_code for _ in range(2)] == [304, 429]
    stale = {"If-None-Match": 'W/"1-0"'}
    assert [other_client.get(path, headers=stale).status_code for _ in range(2)] == [200, 429]


def test_an_unchanged_answer_has_the_usual_headers(api: TestClient, path: str, known_tag: dict[str, str]) -> None:
    answer = api.get(path, headers={**known_tag, "X-Request-Id": "mine"})
    assert (answer.status_code, answer.content, answer.headers["x-request-id"]) == (304, b"", "mine")
    assert answer.headers["etag"] == known_tag["If-None-Match"]
    assert answer.headers["x-content-type-options"] == "nosniff"
    counted = 'hora_http_request_duration_seconds_count{method="GET",route="/v1/jobs/{job_id}",status="304"} 1.0'
    assert counted in api.get("/metrics").text
    assert api.head(path, headers=known_tag).status_code == 304


def test_other_requests_with_a_known_tag_take_the_full_route(
    api: TestClient, path: str, known_tag: dict[str, str]
) -> None:
    assert api.get(f"{path}?limit=1", headers=known_tag).status_code == 422
    assert api.get("/v1/jobs/nosuchjob", headers=known_tag).json()["type"] == "urn:hora:problem:job-not-found"
    assert api.get("/v1/jobs/NO", headers=known_tag).json()["type"] == "urn:hora:problem:job-not-found"
    assert api.post(f"{path}/pause", headers=known_tag).status_code == 202
    assert api.get(path, headers=known_tag).status_code == 200
