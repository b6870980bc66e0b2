"""Studies over HTTP: what is stored and refused, what people ask of them, and the report in its forms."""

import csv
import io
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import event, func, select

from api import drawing
from jobs.db.engine import Sessions
from jobs.db.tables import Job, JobEvent, Study
from jobs.lifecycle.store import transition
from jobs.model.states import Status
from jobs.telemetry.ingest import ALL_RANKS
from tests.integration.api.starting_rows import a_host, an_attempt, metric_points, seconds

BASE = {"dataset": "digits", "learning_rate": 0.001}
GRID = {"gpus": [1, 2], "batch_size": [32, 64]}
STUDY = {"name": "scaling", "base": BASE, "grid": GRID, "repeats": 2}
Json = dict[str, Any]


def fields(answer: Any) -> list[str]:
    assert answer.status_code == 422, answer.text
    return [error["field"] for error in answer.json()["errors"]]


def how_many(sessions: Sessions, table: type[Any]) -> int:
    with sessions() as session:
        return session.scalars(select(func.count()).select_from(table)).one()


@pytest.fixture
def submitted(api: TestClient) -> Callable[..., Json]:
    """Submits a study, with changes, and says what it is."""

    def submit(**changes: Any) -> Json:
        answer = api.post("/v1/studies", json=STUDY | changes)
        assert answer.status_code == 201, answer.text
        study: Json = answer.json()
        return study

    return submit


def ids(study: Json) -> list[str]:
    """The newest job of each place, by cell and repeat."""
    return [job["id"] for cell in study["cells"] for job in cell["jobs"]]


def ends(sessions: Sessions, job_id: str, *ways: Status, **summary: Any) -> None:
    """Bring a job to a status; one that succeeded gets a summary."""
    with sessions.begin() as session:
        for to in ways:
            ended = {"ended_at": func.now()} if to in (Status.SUCCEEDED, Status.FAILED) else {}
            transition(session, job_id, to, **ended | ({"summary": summary} if to is Status.SUCCEEDED else {}))


def succeeds(sessions: Sessions, job_id: str, wall_s: float, *, accuracies: list[float], gpus: int) -> None:
    """A job ran its epochs, of `wall_s` in all, on one host, and was leased for two seconds more."""
    ends(
        sessions, job_id, Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED,
        wall_s=wall_s, setup_s=1.5, train_samples_per_s=1200 / wall_s, val_accuracy=max(accuracies),
        epochs_run=len(accuracies),
    )  # fmt: skip
    shares = [{"host": "ha", "slots": list(range(gpus))}]
    an_attempt(
        sessions,
        job_id,
        gpus=gpus,
        shares=shares,
        created_at=seconds(0),
        ended_at=seconds(0) + timedelta(seconds=wall_s + 2),
    )
    steps = [4 * (i + 1) for i in range(len(accuracies))]
    each_s = wall_s / len(accuracies)
    metric_points(sessions, job_id, zip(steps, accuracies, strict=True), name="val_accuracy", rank=ALL_RANKS)
    metric_points(sessions, job_id, [(step, each_s) for step in steps], name="epoch_s", rank=ALL_RANKS)


def test_a_grid_becomes_jobs_that_are_linked_to_their_cells(
    api: TestClient, sessions: Sessions, submitted: Callable[..., Json]
) -> None:
    study = submitted(note=" first try ")

    assert [cell["values"] for cell in study["cells"]] == [
        {"gpus": gpus, "batch_size": batch} for gpus in (1, 2) for batch in (32, 64)
    ]
    assert (study["jobs"], study["counts"]["queued"], study["complete"], study["varied"]) == (8, 8, False, list(GRID))
    assert [note["text"] for note in study["notes"]] == ["first try"]
    listed_jobs = api.get("/v1/jobs", params={"study": study["id"], "sort": "created_at"}).json()["items"]
    assert [(job["study_cell"], job["study_repeat"]) for job in listed_jobs] == [
        (c, r) for r in (0, 1) for c in range(4)
    ]
    for job in listed_jobs:
        cell = study["cells"][job["study_cell"]]
        assert cell["jobs"][job["study_repeat"]]["id"] == job["id"]
        assert (job["spec"]["gpus"], job["spec"]["batch_size"]) == tuple(cell["values"].values())
        assert (job["spec"]["seed"], job["study"]) == (42 + job["study_repeat"], study["id"])
        assert job["plan"]["global_batch"] == job["gpus"] * job["spec"]["batch_size"]
    assert listed_jobs[0]["name"] == "scaling gpus 1 batch_size 32"
    with sessions() as session:
        assert Counter(session.scalars(select(JobEvent.kind))) == {"submitted": 8}
    assert api.get(f"/v1/studies/{study['id']}").json() == study


def test_the_location_leads_there_and_the_tag_says_whether_anything_changed(
    api: TestClient, submitted: Callable[..., Json]
) -> None:
    answer = api.post("/v1/studies", json=STUDY)
    location = answer.headers["location"]
    assert api.get(location).headers["etag"] == answer.headers["etag"]
    if_none_match = {"If-None-Match": answer.headers["etag"]}
    assert api.get(location, headers=if_none_match).status_code == 304

    api.post(f"/v1/jobs/{ids(answer.json())[0]}/cancel")
    assert api.get(location, headers=if_none_match).json()["counts"]["cancelled"] == 1


def test_a_dry_run_says_the_cells_and_stores_nothing(api: TestClient, sessions: Sessions) -> None:
    answer = api.post("/v1/studies", params={"dry_run": True}, json=STUDY)

    assert answer.status_code == 200
    assert (answer.json()["jobs"], answer.json()["repeats"], answer.json()["varied"]) == (8, 2, list(GRID))
    assert [cell["plan"]["global_batch"] for cell in answer.json()["cells"]] == [32, 64, 64, 128]
    assert how_many(sessions, Study) == how_many(sessions, Job) == 0


def test_wrong_cells_are_named_and_nothing_is_stored(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions)
    wrong = {
        "grid.gpus[2]": STUDY | {"grid": GRID | {"gpus": [1, 2, 3]}},  # the host has two
        "grid.model[1].name": STUDY | {"grid": {"model": ["mlp", "resnet51"]}},
        "grid.batch_size[1]": STUDY | {"grid": {"batch_size": [64, 4096]}},
        "base.dataset.source": STUDY | {"base": {"dataset": "/etc"}},
        "grid.model.weights[0]": STUDY | {"grid": {"model.weights": ["job:0000"]}, "base": BASE | {"model": "mlp"}},
        "grid.lerning_rate": STUDY | {"grid": {"lerning_rate": [1]}},
        "max_jobs": STUDY | {"max_jobs": 7},
        "repeats": STUDY | {"repeats": 0},
        "colour": STUDY | {"colour": "red"},
        "note": STUDY | {"note": "\x00"},
        "target": STUDY | {"target": 90},
    }  # fmt: skip
    for field, body in wrong.items():
        for dry_run in (True, False):
            assert fields(api.post("/v1/studies", params={"dry_run": dry_run}, json=body)) == [field]
    assert how_many(sessions, Study) == how_many(sessions, Job) == 0


def test_a_repeated_key_gets_the_first_study_again(api: TestClient, sessions: Sessions) -> None:
    key = {"Idempotency-Key": "k"}
    with ThreadPoolExecutor(4) as threads:
        answers = list(threads.map(lambda _: api.post("/v1/studies", json=STUDY, headers=key), range(4)))

    assert {answer.status_code for answer in answers} == {201}
    assert len({answer.json()["id"] for answer in answers}) == 1
    assert Counter("idempotency-replayed" in answer.headers for answer in answers) == {True: 3, False: 1}
    assert how_many(sessions, Job) == 8
    changed_study = api.post("/v1/studies", json=STUDY | {"repeats": 1}, headers=key)
    assert (changed_study.status_code, changed_study.json()["type"]) == (409, "urn:hora:problem:idempotency-conflict")
    assert api.post("/v1/jobs", json=BASE, headers=key).status_code == 409


def test_a_thousand_jobs_are_written_in_a_few_statements(api: TestClient, app: Any, sessions: Sessions) -> None:
    statements: list[str] = []
    engine = app.state.services.engine
    event.listen(engine, "before_cursor_execute", lambda *call: statements.append(call[2]))
    body = STUDY | {"grid": {"learning_rate": [i / 1000 for i in range(1, 101)]}, "repeats": 10, "max_jobs": 1000}
    answer = api.post("/v1/studies", json=body)

    assert answer.status_code == 201
    assert how_many(sessions, Job) == how_many(sessions, JobEvent) == 1000
    assert len(statements) < 40, Counter(text[:60] for text in statements)


def test_lists_go_newest_first_page_by_page(api: TestClient, submitted: Callable[..., Json]) -> None:
    study_ids = [submitted(name=f"s{i}", repeats=1)["id"] for i in range(3)]
    api.post(f"/v1/studies/{study_ids[1]}/cancel")
    first = api.get("/v1/studies", params={"limit": 2}).json()
    second = api.get("/v1/studies", params={"limit": 2, "cursor": first["next_cursor"]}).json()

    lines = [*first["items"], *second["items"]]
    assert ([line["id"] for line in lines], second["next_cursor"]) == (study_ids[::-1], None)
    assert [(line["counts"]["cancelled"], line["complete"]) for line in lines] == [(0, False), (4, True), (0, False)]
    assert "cells" not in lines[0]
    assert fields(api.get("/v1/studies", params={"cursor": "x"})) == ["cursor"]


def test_what_is_no_study_is_not_found(api: TestClient) -> None:
    for path in ("0000", "0000/report", "UPPER"):
        answer = api.get(f"/v1/studies/{path}")
        assert (answer.status_code, answer.json()["type"]) == (404, "urn:hora:problem:study-not-found")
    for order in ("cancel", "pause", "resume"):
        assert api.post(f"/v1/studies/0000/{order}").status_code == 404
    assert api.post("/v1/studies/0000/notes", json={"text": "x"}).status_code == 404


def test_a_cancel_ends_what_has_not_ended_and_a_resume_starts_that_again(
    api: TestClient, sessions: Sessions, submitted: Callable[..., Json]
) -> None:
    study = submitted()
    succeeded, running, failed, *queued = ids(study)
    succeeds(sessions, succeeded, 10, accuracies=[0.9], gpus=1)
    ends(sessions, running, Status.LAUNCHING, Status.RUNNING)
    ends(sessions, failed, Status.LAUNCHING, Status.FAILED)
    path = f"/v1/studies/{study['id']}"

    cancelled = api.post(f"{path}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["counts"] == study["counts"] | {
        "queued": 0, "running": 1, "succeeded": 1, "failed": 1, "cancelled": 5,
    }  # fmt: skip
    assert cancelled.json()["cancel_requested_at"] is not None
    assert api.get(f"/v1/jobs/{running}").json()["cancel_requested_at"] is not None
    assert api.get(f"/v1/jobs/{queued[0]}").json()["end_reason"] == "cancelled"
    assert [e["kind"] for e in api.get(f"/v1/jobs/{queued[0]}/events").json()["items"]] == [
        "submitted", "cancel_requested", "ended",
    ]  # fmt: skip
    assert api.post(f"{path}/cancel").json() == cancelled.json()

    with ThreadPoolExecutor(4) as threads:
        resumed = [answer.json() for answer in threads.map(lambda _: api.post(f"{path}/resume"), range(4))]
    assert all(answer == resumed[0] for answer in resumed)
    assert resumed[0]["cancel_requested_at"] is None
    assert resumed[0]["counts"] == study["counts"] | {"queued": 7, "succeeded": 1}
    fresh = ids(resumed[0])
    assert fresh[0] == succeeded
    assert not set(fresh[1:]) & {running, failed, *queued}
    assert [job["replaced"] for cell in resumed[0]["cells"] for job in cell["jobs"]][1:4] == [
        [running], [failed], [queued[0]],
    ]  # fmt: skip
    assert how_many(sessions, Job) == 15
    before, after = (api.get(f"/v1/jobs/{job_id}").json() for job_id in (queued[0], fresh[3]))
    assert [before[name] == after[name] for name in ("spec", "plan", "study_cell", "study_repeat", "owner")] == [
        True
    ] * 5


def test_a_pause_lets_all_wait_and_a_resume_lets_them_go_on(
    api: TestClient, sessions: Sessions, submitted: Callable[..., Json]
) -> None:
    study = submitted()
    done, running, *queued = ids(study)
    succeeds(sessions, done, 10, accuracies=[0.9], gpus=1)
    ends(sessions, running, Status.LAUNCHING, Status.RUNNING)
    path = f"/v1/studies/{study['id']}"

    paused = api.post(f"{path}/pause").json()
    assert (paused["paused"], paused["counts"]["queued"], paused["counts"]["running"]) == (7, 6, 1)
    assert [job["paused"] for cell in paused["cells"] for job in cell["jobs"]] == [False] + [True] * 7
    assert api.post(f"{path}/pause").json() == paused
    resumed = api.post(f"{path}/resume").json()
    assert (resumed["paused"], ids(resumed)) == (0, ids(study))
    kinds = [e["kind"] for e in api.get(f"/v1/jobs/{queued[0]}/events").json()["items"]]
    assert kinds == ["submitted", "pause_requested", "resumed"]
    assert api.post(f"{path}/resume").json() == resumed


def test_notes_are_kept_with_their_author(api: TestClient, submitted: Callable[..., Json]) -> None:
    path = f"/v1/studies/{submitted()['id']}"
    answer = api.post(f"{path}/notes", json={"text": "  batches of 64\r\n\tlook best  "})

    assert answer.status_code == 201
    assert (answer.json()["text"], answer.json()["author"]) == ("batches of 64\n\tlook best", "admin")
    assert api.get(path).json()["notes"] == api.get(f"{path}/report").json()["notes"] == [answer.json()]
    for text in ("", "  \n", "x" * 10_001, "a\x00b", "\x1b[31m", 7):
        assert fields(api.post(f"{path}/notes", json={"text": text})) == ["text"]


@pytest.fixture
def finished(sessions: Sessions, submitted: Callable[..., Json]) -> Json:
    """A study whose jobs ran: on 2 GPUs in half the time with a batch of 64, in no less with one of 32."""
    study = submitted(name="pipes and signs", grid={"gpus": [1, 2], "dataset.label": ["=1+1", "a|b"]})
    accuracies = [0.5, 0.8, 0.86]
    for cell, walls in zip(study["cells"], [(12, 12), (16, 20), (12, 12), (8, 10)], strict=True):
        for job, wall_s in zip(cell["jobs"], walls, strict=True):
            succeeds(sessions, job["id"], wall_s, accuracies=accuracies, gpus=cell["gpus"])
    return study


def test_the_report_is_made_of_what_the_jobs_say(api: TestClient, finished: Json) -> None:
    report = api.get(f"/v1/studies/{finished['id']}/report").json()

    assert (report["complete"], report["scaling"], report["baseline"]) == (True, "weak", {"gpus": 1})
    assert report["target"] == {"metric": "val_accuracy", "value": 0.86, "chosen_by": "results"}
    assert [cell["values"] for cell in report["cells"]] == [cell["values"] for cell in finished["cells"]]
    assert [cell["jobs"] for cell in report["cells"]] == [[j["id"] for j in cell["jobs"]] for cell in finished["cells"]]
    assert [cell["wall_s"]["mean"] for cell in report["cells"]] == [12, 18, 12, 9]
    assert [cell["speedup"] for cell in report["cells"]] == [1, 1, 1, 2]
    assert [cell["efficiency"] for cell in report["cells"]] == [1, 1, 0.5, 1]
    assert [cell["hosts"] for cell in report["cells"]] == [1, 1, 1, 1]
    assert report["cells"][3]["gpu_hours"]["values"] == pytest.approx([2 * 10 / 3600, 2 * 12 / 3600])
    assert report["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8, 10])
    assert report["cells"][3]["accuracy_agreement"]["agrees"] is True
    assert report["best"]["wall_s"] == 3
    assert "dataset.label a|b: 2 GPUs ran at 2x the speed of 1 (efficiency 1)." in report["findings"]

    report_for_target = api.get(f"/v1/studies/{finished['id']}/report", params={"target": 0.8}).json()
    assert report_for_target["target"] == {"metric": "val_accuracy", "value": 0.8, "chosen_by": "request"}
    assert report_for_target["cells"][3]["time_to_target_s"]["values"] == pytest.approx([8 * 2 / 3, 10 * 2 / 3])
    assert fields(api.get(f"/v1/studies/{finished['id']}/report", params={"target": 2})) == ["target"]


def test_epochs_that_were_run_again_count_once(api: TestClient, sessions: Sessions, submitted: Any) -> None:
    study = submitted(grid={}, repeats=1, target=0.8)
    [job_id] = ids(study)
    succeeds(sessions, job_id, 3, accuracies=[0.5, 0.9, 0.95], gpus=1)
    an_attempt(sessions, job_id, 2, gpus=1, resumed_step=4, created_at=seconds(10), ended_at=seconds(20))
    metric_points(sessions, job_id, [(8, 0.7), (12, 0.85)], name="val_accuracy", rank=ALL_RANKS, attempt=2)
    metric_points(sessions, job_id, [(8, 2.0), (12, 2.0)], name="epoch_s", rank=ALL_RANKS, attempt=2)

    report = api.get(f"/v1/studies/{study['id']}/report").json()
    assert report["target"]["chosen_by"] == "study"
    [cell] = report["cells"]
    assert cell["time_to_target_s"]["mean"] == pytest.approx(1 + 2 + 2)
    assert cell["gpu_hours"]["mean"] == pytest.approx((5 + 10) / 3600)


def test_a_study_that_has_just_begun_has_a_report(api: TestClient, submitted: Callable[..., Json]) -> None:
    path = f"/v1/studies/{submitted()['id']}/report"
    report = api.get(path).json()

    assert (report["complete"], report["target"], report["best"]) == (False, None, {})
    assert [cell["unfinished"] for cell in report["cells"]] == [2] * 4
    assert report["findings"] == ["8 of 8 jobs have not ended: the figures will change."]
    for form in ("markdown", "csv", "png"):
        assert api.get(path, params={"format": form}).status_code == 200


def test_as_markdown_csv_and_picture(api: TestClient, finished: Json, monkeypatch: pytest.MonkeyPatch) -> None:
    path = f"/v1/studies/{finished['id']}/report"
    page = api.get(path, params={"format": "markdown"})
    assert page.headers["content-type"] == "text/markdown; charset=utf-8"
    [row] = [line for line in page.text.splitlines() if line.startswith("| 2 | a\\|b |")]
    assert "| 2.00 | 1.00 | 9.00 ± 12.71 |" in row

    table = api.get(path, params={"format": "csv"})
    assert table.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(table.text)))
    assert [row["dataset.label"] for row in rows] == ["'=1+1", "a|b", "'=1+1", "a|b"]
    assert [float(row["speedup"]) for row in rows] == [1, 1, 1, 2]

    monkeypatch.setenv("HORA_TOKEN", "secret")
    picture = api.get(path, params={"format": "png"})
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/png")
    assert picture.content.startswith(b"\x89PNG\r\n\x1a\n")
    assert picture.content.endswith(b"IEND\xaeB`\x82")


def test_too_many_pictures_at_once_are_refused(
    api: TestClient, finished: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    while drawing._WAITING_OR_DRAWING.acquire(blocking=False):
        pass
    try:
        answer = api.get(f"/v1/studies/{finished['id']}/report", params={"format": "png"})
    finally:
        drawing._WAITING_OR_DRAWING.release(4)
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)


def test_a_picture_that_cannot_be_drawn_is_a_fault_of_ours(
    api: TestClient, finished: Json, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drawing.sys, "executable", "/bin/false")
    answer = api.get(f"/v1/studies/{finished['id']}/report", params={"format": "png"})
    assert (answer.status_code, answer.json()["type"]) == (500, "urn:hora:problem:internal-error")


def test_the_openapi_document_has_the_study(api: TestClient) -> None:
    document = api.get("/openapi.json").json()
    assert document["components"]["schemas"]["StudySpec"]["required"] == ["base"]
    forms = document["paths"]["/v1/studies/{study_id}/report"]["get"]["responses"]["200"]["content"]
    assert set(forms) == {"application/json", "text/markdown", "text/csv", "image/png"}
