"""The typed client against a simulated service."""

import json
import sys
import time
from typing import Any

import httpx2 as httpx
import pytest

import hora
from hora import Client, HoraError, JobFailed, UnexpectedAnswer
from jobs.model.spec import parse_spec
from jobs.model.states import EndReason, Status
from tests.unit.hora.played import PLAN, SPEC, ended, in_turn, job, json_answer, page, study


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: None)


def answering(*answers: httpx.Response | Exception) -> tuple[Client, list[httpx.Request]]:
    transport, requests = in_turn(*answers)
    return Client("http://hora.test", "secret", transport=transport), requests


def test_all_public_names_can_be_imported() -> None:
    assert all(isinstance(getattr(hora, name), type) for name in hora.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Nothing'"):
        hora.Nothing  # noqa: B018


@pytest.mark.parametrize(
    ("spec", "fields", "body"),
    [
        ({"dataset": "digits", "gpus": 1}, {}, {"dataset": "digits", "gpus": 1}),
        (None, {"dataset": "digits", "gpus": 2}, {"dataset": "digits", "gpus": 2}),
        ({"dataset": "digits", "gpus": 1}, {"gpus": 2}, {"dataset": "digits", "gpus": 2}),
        (parse_spec('{"dataset": "digits"}'), {"epochs": 3}, {"dataset": {"source": "digits"}, "epochs": 3}),
    ],
    ids=["a mapping", "fields", "both", "a spec and fields"],
)
def test_submit_and_dry_run_take_a_mapping_a_spec_or_fields(
    spec: Any, fields: dict[str, Any], body: dict[str, Any]
) -> None:
    client, requests = answering(
        json_answer(job(), 201), json_answer({"spec": json.loads(SPEC.model_dump_json()), "plan": PLAN})
    )
    submitted_job = client.jobs.submit(spec, **fields)
    assert (submitted_job.id, submitted_job.status, submitted_job.created_at.year) == ("0job", Status.QUEUED, 2030)
    assert client.jobs.dry_run(spec, **fields).plan.epochs == 3
    assert [json.loads(request.content) for request in requests] == [body, body]
    assert requests[0].headers["Idempotency-Key"]


def test_extra_fields_of_a_newer_service_are_kept() -> None:
    newer = job(colour="red", waiting={"position": 1, "reason": "is next", "since": "today"})
    preview = {"spec": {**json.loads(SPEC.model_dump_json()), "shade": 1}, "plan": {**PLAN, "watts": 2}, "price": 3}
    wide = study(budget=4)
    wide["cells"][0]["jobs"][0]["host"] = "ha"
    client, _ = answering(json_answer(newer), json_answer(preview), json_answer(wide))
    found = client.jobs.get("0job")
    assert found.model_extra == {"colour": "red"}
    assert found.waiting is not None
    assert found.waiting.model_extra == {"since": "today"}
    preview_extra = client.jobs.dry_run({})
    assert (preview_extra.model_extra, preview_extra.spec.model_extra) == ({"price": 3}, {"shade": 1})
    assert client.studies.get("0stu").cells[0].jobs[0].model_extra == {"host": "ha"}


def test_error_of_an_unreadable_answer_names_the_field() -> None:
    short = job()
    del short["owner"]
    client, _ = answering(json_answer(short), json_answer(job(status="dreaming")))
    with pytest.raises(UnexpectedAnswer, match=r"Job .*\(owner: Field required\)"):
        client.jobs.get("0job")
    with pytest.raises(UnexpectedAnswer, match="status"):
        client.jobs.get("0job")


def test_refreshing_a_job_or_a_study_updates_it_in_place() -> None:
    running = json_answer(job(status="running", started_at="2030-01-02T03:04:06Z", attempt=1), ETag='"2"')
    client, requests = answering(json_answer(job(), 201), running, running, json_answer(ended()), json_answer(ended()))
    mine = client.jobs.submit(dataset="digits")
    assert mine.refresh() is mine
    assert mine.status == Status.RUNNING
    seen: list[str] = []
    assert mine.wait(on_update=lambda now: seen.append(now.status)) is mine
    assert seen == ["running", "succeeded"]
    assert (mine.status, mine.end_reason, mine.revision) == (Status.SUCCEEDED, EndReason.COMPLETED, 9)
    assert mine.cancel().status == Status.SUCCEEDED
    assert requests[-1].url.path == "/v1/jobs/0job/cancel"
    over = json_answer(study(complete=True, counts={"succeeded": 1}))
    new, listed = json_answer(study(), 201), json_answer(page(study()))
    client, requests = answering(new, json_answer(study()), over, over, listed)
    grid = client.studies.submit(base={"dataset": "digits"}, grid={"gpus": [2]})
    assert json.loads(requests[0].content) == {"base": {"dataset": "digits"}, "grid": {"gpus": [2]}}
    assert grid.wait() is grid
    assert (grid.complete, grid.counts) == (True, {Status.SUCCEEDED: 1})
    assert grid.refresh().cells[0].gpus == 2
    assert [one.id for one in client.studies.list()] == ["0stu"]


@pytest.mark.parametrize(
    ("over", "text"),
    [
        (ended("failed", "out_of_memory", error="the GPU is full"), "failed (out_of_memory): the GPU is full"),
        (
            ended("failed", "stalled", cause="No rank made a step.", remedy="Read what the ranks printed last."),
            "failed (stalled): No rank made a step. Read what the ranks printed last.",
        ),
        (ended("cancelled", "cancelled"), "cancelled"),
    ],
)
def test_wait_with_check_raises_when_the_job_failed_or_was_cancelled(over: dict[str, Any], text: str) -> None:
    client, _ = answering(json_answer(job()), json_answer(over), json_answer(over))
    mine = client.jobs.get("0job")
    with pytest.raises(JobFailed) as caught:
        mine.wait(check=True)
    assert str(caught.value) == f"job 0job {text}"
    assert (caught.value.job.end_reason, mine.status) == (over["end_reason"], over["status"])
    assert mine.wait().error == over["error"]


def test_lists_are_fetched_as_they_are_consumed() -> None:
    client, requests = answering(
        json_answer(page(job(id="a"), job(id="b"), next_cursor="more")), json_answer(page(job(id="c")))
    )
    found = client.jobs.list(status=Status.QUEUED, owner="ada", sort=["-priority", "created"])
    assert not requests
    assert next(found).id == "a"
    assert len(requests) == 1
    assert [one.id for one in found] == ["b", "c"]
    assert dict(requests[1].url.params) == {
        "status": "queued", "owner": "ada", "sort": "-priority,created", "limit": "100", "cursor": "more",
    }  # fmt: skip
    with pytest.raises(TypeError, match="no such filter of jobs `statsu`; did you mean `status`"):
        list(client.jobs.list(statsu="failed"))  # type: ignore[call-arg]


def test_metrics_convert_to_numpy_arrays_and_a_pandas_table() -> None:
    pytest.importorskip("pandas")
    of_all, of_rank = ({"name": "loss", "x": [1.0, 2.0], "bands": []} | more for more in (
        {"rank": -1, "y": [0.5, None]}, {"rank": 0, "y": [1.0, 2.0]}
    ))  # fmt: skip
    client, requests = answering(json_answer({"series": [of_all, of_rank]}))
    metrics = client.jobs.metrics("0job", name=["loss", "accuracy"], axis="epoch")
    assert requests[0].url.query == b"name=loss&name=accuracy&axis=epoch"
    assert [(one.name, one.rank) for one in metrics] == [("loss", -1), ("loss", 0)]
    arrays = metrics.to_numpy()
    assert list(arrays) == ["loss", "loss[0]"]
    assert arrays["loss"][0].tolist() == [1, 2]
    assert str(arrays["loss"][1].tolist()) == "[0.5, nan]"
    frame = metrics.to_pandas()
    assert list(frame.columns) == ["name", "rank", "epoch", "value"]
    assert frame[frame["rank"] == 0]["value"].tolist() == [1, 2]
    assert frame["value"].isna().tolist() == [False, True, False, False]


@pytest.mark.parametrize("package", ["numpy", "pandas"])
def test_missing_package_is_named_in_the_error(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, package, None)
    client, _ = answering(json_answer({"series": []}))
    with pytest.raises(ImportError, match=f"needs {package}, which is not installed"):
        getattr(client.jobs.metrics("0job"), f"to_{package}")()


def line(number: int) -> dict[str, Any]:
    return {"id": number, "at": "2030-01-02T03:04:05Z", "attempt": 1, "rank": 0, "text": f"line {number}"}


def stream_of(*events: tuple[str, Any]) -> httpx.Response:
    """An answer that streams these events and ends."""
    texts = [f"id: {number}\nevent: {name}\ndata: {json.dumps(data)}\n\n" for number, (name, data) in enumerate(events)]
    return httpx.Response(200, text="".join(texts), headers={"Content-Type": "text/event-stream"})


def test_logs_are_followed_until_the_job_has_ended() -> None:
    """The service of an older version sends lines from the first one on, and without levels."""
    news = {"items": [line(number) for number in range(1, 10)]}
    seventh = json_answer({"items": [line(7)], "next_after": 7})
    more = stream_of(("logs", news), ("logs", {"items": [line(11) | {"text": "LINE 11"}]}), ("end", {}))
    client, requests = answering(seventh, seventh, more)
    followed = client.jobs.logs("0job", tail=1, follow=True, level="info", search="line")
    assert [one.text for one in followed] == ["line 7", "line 8", "line 9", "LINE 11"]
    assert [dict(request.url.params) for request in requests] == [
        {"tail": "1"}, {"level": "info", "search": "line", "tail": "1"}, {"include": "logs", "logs_after": "7"},
    ]  # fmt: skip


def test_logs_are_followed_at_a_service_that_knows_no_beginning_of_them() -> None:
    refusal = {"title": "Invalid request", "errors": [{"field": "logs_after", "message": "no such parameter"}]}
    lines = stream_of(("logs", {"items": [line(7), line(8)]}), ("end", {}))
    empty = json_answer({"items": [], "next_after": 7})
    client, requests = answering(empty, empty, json_answer(refusal, 422), lines)
    assert [one.text for one in client.jobs.logs("0job", tail=1, follow=True)] == ["line 8"]
    assert dict(requests[-1].url.params) == {"include": "logs"}


def test_a_token_without_an_address_and_a_closed_client_are_of_no_use() -> None:
    client, _ = answering(json_answer(job()))
    with client:
        assert client.jobs.get("0job").name == "job"
    with pytest.raises(RuntimeError, match="closed"):
        client.jobs.get("0job")
    with pytest.raises(HoraError, match="give its url"):
        Client(token="secret")
