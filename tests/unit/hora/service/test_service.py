"""The `Service` class against simulated answers."""

import json
import re
import time
from collections.abc import Callable, Iterator

import httpx2 as httpx
import pytest

from hora.service import (
    HoraError,
    NotAuthorized,
    NotFound,
    ProblemError,
    Service,
    ServiceUnavailable,
    WaitTimeout,
)
from hora.service.transport import NoName
from jobs.model.spec import parse_spec

Answer = Callable[[httpx.Request], httpx.Response]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


def playing(answer: Answer) -> Service:
    return Service("http://hora.test/", "secret", transport=httpx.MockTransport(answer))


def in_turn(*answers: httpx.Response | Exception) -> tuple[Service, list[httpx.Request]]:
    requests: list[httpx.Request] = []
    left: Iterator[httpx.Response | Exception] = iter(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        following = next(left)
        if isinstance(following, Exception):
            raise following
        return following

    return playing(answer), requests


def test_token_is_sent_and_the_job_id_is_escaped() -> None:
    client, requests = in_turn(httpx.Response(200, json={"id": "a"}))
    assert client.job("a/b") == {"id": "a"}
    assert requests[0].headers["Authorization"] == "Bearer secret"
    assert requests[0].url.raw_path == b"/v1/jobs/a%2Fb"


@pytest.mark.parametrize("job_id", ["", ".", ".."])
def test_what_would_lead_to_another_path_is_no_id(job_id: str) -> None:
    client, requests = in_turn(httpx.Response(204))
    with pytest.raises(NoName, match=re.escape(f"{job_id!r} is no name and no id of anything.")):
        client.delete(job_id)
    assert requests == []


def test_an_id_that_is_no_text_is_said() -> None:
    client, _ = in_turn()
    with pytest.raises(TypeError, match=r"^a name or an id is a text, not None$"):
        client.job(None)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"^no such filter of studies `ower`; did you mean `owner`\?$"):
        list(client.studies(ower="ada"))  # type: ignore[call-arg]


def test_submission_without_an_answer_is_retried_with_the_same_key() -> None:
    client, requests = in_turn(
        httpx.ReadTimeout("late"), httpx.ConnectError("gone"), httpx.Response(201, json={"id": "a"})
    )
    assert client.submit({"dataset": "digits"})["id"] == "a"
    assert len({request.headers["Idempotency-Key"] for request in requests}) == 1
    assert [json.loads(request.content) for request in requests] == 3 * [{"dataset": "digits"}]


def test_two_submissions_have_different_keys() -> None:
    client, requests = in_turn(httpx.Response(201, json={"id": "a"}), httpx.Response(201, json={"id": "b"}))
    client.submit({})
    client.submit({})
    assert requests[0].headers["Idempotency-Key"] != requests[1].headers["Idempotency-Key"]


def test_submit_sends_only_the_spec_fields_that_were_set() -> None:
    client, requests = in_turn(httpx.Response(201, json={}))
    client.submit(parse_spec('{"dataset": "digits", "gpus": 2}'), idempotency_key="k")
    assert json.loads(requests[0].content) == {"dataset": {"source": "digits"}, "gpus": 2}
    assert requests[0].headers["Idempotency-Key"] == "k"


def test_unreachable_service_raises_after_four_tries() -> None:
    client, requests = in_turn(*[httpx.ConnectError("Connection refused") for _ in range(4)])
    with pytest.raises(ServiceUnavailable, match=r"http://hora\.test gives no answer \(Connection refused\)"):
        client.job("a")
    assert len(requests) == 4


@pytest.mark.parametrize(
    ("status", "kind"), [(401, NotAuthorized), (403, NotAuthorized), (404, NotFound), (422, ProblemError)]
)
def test_problem_documents_are_raised_as_exceptions(status: int, kind: type[ProblemError]) -> None:
    problem = {"title": "No", "detail": "because", "errors": [{"field": "gpus", "message": "too many"}]}
    client, _ = in_turn(httpx.Response(status, json=problem))
    with pytest.raises(kind) as caught:
        client.job("a")
    assert (caught.value.status, caught.value.title, caught.value.detail) == (status, "No", "because")
    assert caught.value.errors == [{"field": "gpus", "message": "too many"}]
    assert str(caught.value) == "No: because"


def test_error_without_a_problem_document_is_raised_with_its_http_status() -> None:
    client, _ = in_turn(*4 * [httpx.Response(502, text="<html>bad gateway")])
    with pytest.raises(ProblemError, match="HTTP 502 Bad Gateway"):
        client.job("a")


def test_answer_that_is_not_json_is_refused() -> None:
    client, _ = in_turn(httpx.Response(200, text="<html>"))
    with pytest.raises(HoraError, match="is not a Hora service"):
        client.job("a")


def test_metrics_of_many_jobs_take_one_request() -> None:
    client, requests = in_turn(httpx.Response(200, json={"jobs": [{"id": "b", "series": []}]}))
    assert client.metrics_of(["b", "a"], name=["loss", "accuracy"], max_points=40) == [{"id": "b", "series": []}]
    assert requests[0].url.raw_path == b"/v1/metrics?job=b&job=a&name=loss&name=accuracy&max_points=40"


def test_log_request_sends_search_position_and_limit() -> None:
    page = {"items": [], "next_after": 6, "previous_before": None}
    client, requests = in_turn(httpx.Response(200, json=page))
    assert client.logs("a", search="100 %", before=7, limit=5) == page
    assert dict(requests[0].url.params) == {"search": "100 %", "before": "7", "limit": "5"}


def test_lists_are_fetched_page_by_page() -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.params["status"] == "running"
        assert "label" not in request.url.params
        second = request.url.params.get("cursor") == "next"
        return httpx.Response(
            200, json={"items": [{"id": "b" if second else "a"}], "next_cursor": None if second else "next"}
        )

    assert [job["id"] for job in playing(answer).jobs(status="running")] == ["a", "b"]


def test_waiting_reports_each_change_once_and_survives_a_restart_of_the_service() -> None:
    def job(status: str, etag: str) -> httpx.Response:
        return httpx.Response(200, json={"id": "a", "status": status}, headers={"ETag": etag})

    client, requests = in_turn(
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


def test_a_304_answer_does_not_count_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hora.service.waiting.AWAY_LIMIT_S", -1.0)  # any error would be raised at once
    unchanged = [httpx.Response(304) for _ in range(3)]
    client, _ = in_turn(
        httpx.Response(200, json={"id": "a", "status": "queued"}, headers={"ETag": "1"}),
        *unchanged,
        httpx.Response(200, json={"id": "a", "status": "succeeded"}),
    )
    assert client.wait("a")["status"] == "succeeded"


def test_waiting_for_a_study_ends_when_it_is_complete() -> None:
    def study(ended: int, *, complete: bool) -> httpx.Response:
        return httpx.Response(200, json={"id": "s", "complete": complete, "ended": ended}, headers={"ETag": str(ended)})

    client, requests = in_turn(
        study(0, complete=False), httpx.Response(304), study(1, complete=False), study(2, complete=True)
    )
    told: list[int] = []
    assert client.wait_study("s", on_update=lambda seen: told.append(seen["ended"]))["ended"] == 2
    assert told == [0, 1, 2]
    assert [request.headers.get("If-None-Match") for request in requests] == [None, "0", "0", "1"]
    with pytest.raises(WaitTimeout, match="study s is still running"):
        playing(lambda _: study(0, complete=False)).wait_study("s", timeout_s=0)


def test_each_method_for_studies_and_analysis_sends_its_request() -> None:
    client, requests = in_turn(*[httpx.Response(200, json={"items": [{"number": 1}]}) for _ in range(15)])
    client.submit_study({"base": {}}, idempotency_key="k")
    client.dry_run_study({"base": {}})
    client.study("s")
    assert list(client.studies(owner="ada", where=["gpus>1", "starred"], page_size=7)) == [{"number": 1}]
    client.cancel_study("s")
    client.cancel_study("s", save=True)
    client.pause_study("s")
    client.resume_study("s")
    client.note_study("s", "again")
    client.update_study("s", {"project": "vision"})
    client.delete_study("s")
    client.dry_run_clone("x", {"gpus": 2})
    client.analysis("x")
    assert client.advice("x") == [{"number": 1}]
    client.host_utilization("a b", metric="cpu_percent")
    assert [f"{request.method} {request.url.raw_path.decode()}" for request in requests] == [
        "POST /v1/studies",
        "POST /v1/studies?dry_run=true",
        "GET /v1/studies/s",
        "GET /v1/studies?owner=ada&where=gpus%3E1&where=starred&limit=7",
        "POST /v1/studies/s/cancel",
        "POST /v1/studies/s/cancel?save=true",
        "POST /v1/studies/s/pause",
        "POST /v1/studies/s/resume",
        "POST /v1/studies/s/notes",
        "PATCH /v1/studies/s",
        "DELETE /v1/studies/s",
        "POST /v1/jobs/x/clone?dry_run=true",
        "GET /v1/jobs/x/analysis",
        "GET /v1/jobs/x/advice",
        "GET /v1/hosts/a%20b/utilization?metric=cpu_percent",
    ]
    assert requests[0].headers["Idempotency-Key"] == "k"
    assert json.loads(requests[8].content) == {"text": "again"}
    assert json.loads(requests[9].content) == {"project": "vision"}


def test_note_without_an_answer_is_not_sent_again() -> None:
    client, requests = in_turn(httpx.ReadTimeout("late"))
    with pytest.raises(ServiceUnavailable):
        client.note_study("s", "again")
    assert len(requests) == 1


def test_report_is_a_mapping_text_or_bytes_depending_on_its_format() -> None:
    client, requests = in_turn(
        httpx.Response(200, json={"cells": []}),
        httpx.Response(200, text="gpus,time\n", headers={"Content-Type": "text/csv; charset=utf-8"}),
        httpx.Response(200, content=b"\x89PNG"),
    )
    assert client.report("s", target=0.9) == {"cells": []}
    assert client.report("s", format="csv") == "gpus,time\n"
    assert client.report("s", format="png") == b"\x89PNG"
    assert [request.url.query for request in requests] == [b"target=0.9&format=json", b"format=csv", b"format=png"]


def test_invalid_unicode_raises_a_hora_error() -> None:
    client, requests = in_turn(httpx.Response(404, json={"title": "Job not found"}))
    with pytest.raises(NotFound):
        client.job("\udcff")
    with pytest.raises(HoraError, match="not text"):
        list(client.jobs(name="\udcff"))
    with pytest.raises(HoraError, match="not text"):
        client.note_study("s", "\udcff")
    assert len(requests) == 1


def test_each_method_for_jobs_and_hosts_sends_its_request() -> None:
    client, requests = in_turn(*[httpx.Response(200, json={"name": "a"}) for _ in range(5)], httpx.Response(204))
    client.pause("x")
    client.resume("x")
    client.host("a b")
    client.drain("a", requeue=True)
    client.undrain("a")
    client.forget_host("a")
    assert [(request.method, request.url.raw_path) for request in requests] == [
        ("POST", b"/v1/jobs/x/pause"),
        ("POST", b"/v1/jobs/x/resume"),
        ("GET", b"/v1/hosts/a%20b"),
        ("POST", b"/v1/hosts/a/drain"),
        ("POST", b"/v1/hosts/a/undrain"),
        ("DELETE", b"/v1/hosts/a"),
    ]
    assert json.loads(requests[3].content) == {"requeue": True}


def test_waiting_for_a_missing_job_raises_at_once() -> None:
    client, _ = in_turn(httpx.Response(404, json={"title": "Job not found"}))
    with pytest.raises(NotFound):
        client.wait("a")


def test_waiting_raises_after_its_timeout() -> None:
    client = playing(lambda _: httpx.Response(200, json={"id": "a", "status": "running"}))
    with pytest.raises(WaitTimeout, match="job a is still running"):
        client.wait("a", timeout_s=0)
