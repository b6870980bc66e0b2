"""The `Service` class against simulated answers."""

import json
import re
import time

import httpx2 as httpx
import pytest

from hora.service import HoraError, NotAuthorized, NotFound, ProblemError, ServiceUnavailable, WaitTimeout
from hora.service.transport import NoName
from tests.unit.hora.played import json_answer, service_of


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


def test_token_is_sent_and_the_job_id_is_escaped() -> None:
    client, requests = service_of(json_answer({"id": "a"}))
    assert client.job("a/b") == {"id": "a"}
    assert requests[0].headers["Authorization"] == "Bearer secret"
    assert requests[0].url.raw_path == b"/v1/jobs/a%2Fb"


@pytest.mark.parametrize("job_id", ["", ".", ".."])
def test_what_would_lead_to_another_path_is_no_id(job_id: str) -> None:
    client, requests = service_of(httpx.Response(204))
    with pytest.raises(NoName, match=re.escape(f"{job_id!r} is no name and no id of anything.")):
        client.delete(job_id)
    with pytest.raises(TypeError, match=r"^a name or an id is a text, not None$"):
        client.job(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^no such filter of studies `ower`; did you mean `owner`\?$"):
        list(client.studies(ower="ada"))  # type: ignore[call-arg]
    assert requests == []


def test_submission_without_an_answer_is_retried_with_the_same_key() -> None:
    stored = json_answer({"id": "a"}, 201)
    client, requests = service_of(httpx.ReadTimeout("late"), httpx.ConnectError("gone"), stored, stored)
    assert client.submit({"dataset": "digits"})["id"] == "a"
    assert [json.loads(request.content) for request in requests] == 3 * [{"dataset": "digits"}]
    client.submit({})
    keys = [request.headers["Idempotency-Key"] for request in requests]
    assert keys[0] == keys[1] == keys[2] != keys[3]


def test_unreachable_service_raises_after_four_tries() -> None:
    client, requests = service_of(*[httpx.ConnectError("Connection refused") for _ in range(4)])
    with pytest.raises(ServiceUnavailable, match=r"http://hora\.test gives no answer \(Connection refused\)"):
        client.job("a")
    assert len(requests) == 4


@pytest.mark.parametrize(
    ("status", "kind"), [(401, NotAuthorized), (403, NotAuthorized), (404, NotFound), (422, ProblemError)]
)
def test_problem_documents_are_raised_as_exceptions(status: int, kind: type[ProblemError]) -> None:
    problem = {"title": "No", "detail": "because", "errors": [{"field": "gpus", "message": "too many"}]}
    client, _ = service_of(httpx.Response(status, json=problem))
    with pytest.raises(kind) as caught:
        client.job("a")
    assert (caught.value.status, caught.value.title, caught.value.detail) == (status, "No", "because")
    assert caught.value.errors == [{"field": "gpus", "message": "too many"}]
    assert str(caught.value) == "No: because"


def test_an_answer_of_something_else_is_refused() -> None:
    client, _ = service_of(*4 * [httpx.Response(502, text="<html>bad gateway")], httpx.Response(200, text="<html>"))
    with pytest.raises(ProblemError, match="HTTP 502 Bad Gateway"):
        client.job("a")
    with pytest.raises(HoraError, match="is not a Hora service"):
        client.job("a")


def test_waiting_reports_each_change_once_and_survives_a_restart_of_the_service(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def job(status: str, etag: str) -> httpx.Response:
        return json_answer({"id": "a", "status": status}, ETag=etag)

    client, requests = service_of(
        job("queued", "1"),
        httpx.Response(304),
        httpx.Response(503, json={"title": "Unavailable"}),
        *[httpx.ConnectError("gone") for _ in range(4)],
        job("running", "2"),
        job("succeeded", "3"),
    )
    told: list[str] = []
    assert client.wait("a", on_update=lambda seen: told.append(seen["status"]))["status"] == "succeeded"
    assert told == ["queued", "running", "succeeded"]
    assert requests[1].headers["If-None-Match"] == "1"
    monkeypatch.setattr("hora.service.waiting.AWAY_LIMIT_S", -1.0)  # any error would be raised at once: a 304 is none
    client, _ = service_of(job("queued", "1"), httpx.Response(304), httpx.Response(304), job("succeeded", "2"))
    assert client.wait("a")["status"] == "succeeded"


def test_methods_send_what_they_were_given() -> None:
    """What the commands send is compared with the API's own description, in the tests of the command line."""
    client, requests = service_of(*[json_answer({"name": "a", "jobs": []}) for _ in range(6)])
    client.submit_study({"base": {}}, idempotency_key="k")
    client.cancel_study("s", save=True)
    client.host_utilization("a b", metric="cpu_percent")
    client.drain("a", requeue=True)
    assert client.metrics_of(["b", "a"], name=["loss", "accuracy"], max_points=40) == []
    client.logs("a", search="100 %", before=7, limit=5)
    assert [f"{request.method} {request.url.raw_path.decode()}" for request in requests] == [
        "POST /v1/studies",
        "POST /v1/studies/s/cancel?save=true",
        "GET /v1/hosts/a%20b/utilization?metric=cpu_percent",
        "POST /v1/hosts/a/drain",
        "GET /v1/metrics?job=b&job=a&name=loss&name=accuracy&max_points=40",
        "GET /v1/jobs/a/logs?search=100+%25&before=7&limit=5",
    ]
    assert requests[0].headers["Idempotency-Key"] == "k"
    assert json.loads(requests[3].content) == {"requeue": True}


def test_invalid_unicode_raises_a_hora_error() -> None:
    client, requests = service_of(httpx.Response(404, json={"title": "Job not found"}))
    with pytest.raises(NotFound):
        client.job("\udcff")
    with pytest.raises(HoraError, match="not text"):
        list(client.jobs(name="\udcff"))
    with pytest.raises(HoraError, match="not text"):
        client.note_study("s", "\udcff")
    assert len(requests) == 1


def test_waiting_raises_after_its_timeout_and_for_a_missing_job_at_once() -> None:
    running, missing = json_answer({"id": "a", "status": "running"}), httpx.Response(404, json={"title": "Not found"})
    client, _ = service_of(running, missing, json_answer({"id": "s", "complete": False}))
    with pytest.raises(WaitTimeout, match="job a is still running"):
        client.wait("a", timeout_s=0)
    with pytest.raises(NotFound):
        client.wait("a")
    with pytest.raises(WaitTimeout, match="study s is still running"):
        client.wait_study("s", timeout_s=0)
