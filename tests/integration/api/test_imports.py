"""Runs that were trained without the service, imported over HTTP: what the job then says."""

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from api.routes import imports
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, LogLine, ProjectUsage, RunTime, Upload
from jobs.intake.received_runs import receive
from jobs.runtime.settings import Settings
from tests.integration.api.answers import problem
from tests.integration.api.sent_runs import bytes_of, imported, send, uploaded
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.runs import BEGAN, RUN_ID, run_folder
from tests.waiting import slowdown, until


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, max_import_mb=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run")


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_run_becomes_a_job_with_the_times_and_files_of_the_run(
    api: TestClient, sessions: Sessions, configuration: Settings, folder: Path
) -> None:
    answer = send(api, bytes_of(folder))
    assert answer.status_code == 201, answer.text
    path = answer.headers["Location"]
    job = api.get(path).json()
    assert job["id"] == answer.json()["id"]
    assert (job["status"], job["end_reason"], job["error"]) == ("succeeded", "completed", None)
    assert (job["name"], job["labels"], job["gpus"], job["attempt"]) == ("digits alone", {"team": "vision"}, 2, 2)
    assert (job["run_id"], when(job["created_at"])) == (RUN_ID, BEGAN)
    assert when(job["started_at"]) == BEGAN + timedelta(hours=1, seconds=1)
    assert when(job["ended_at"]) == BEGAN + timedelta(hours=2, minutes=30)
    assert job["summary"]["val_accuracy"] == 0.75
    assert job["metrics"]["val_accuracy"] == {
        "last": 0.75, "best": 0.75, "best_epoch": 3, "low": 0.25, "high": 0.75, "mean": 0.5,
    }  # fmt: skip
    assert (job["checkpoint_bytes"], job["artifact_bytes"]) == (None, None)
    assert (job["restarts"], job["losses"]) == (0, 0)

    first, second = api.get(f"{path}/attempts").json()["items"]
    assert (first["end_reason"], first["error"]) == ("preempted", "Slurm takes its nodes back")
    assert (second["end_reason"], second["resumed_step"]) == ("completed", 2)
    assert when(first["ended_at"]) == BEGAN + timedelta(hours=1, minutes=30)
    assert [(share["host"], share["slots"]) for share in second["shares"]] == [("n1", [0]), ("n2", [0])]
    events = api.get(f"{path}/events").json()["items"]
    assert [event["kind"] for event in events] == [
        "submitted", "placed", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "rank_started",
        "attempt_ended", "requeued",
        "placed", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "epoch_ended", "checkpoint_saved",
        "rank_started", "attempt_ended", "ended",
    ]  # fmt: skip
    assert all(BEGAN <= when(event["at"]) <= BEGAN + timedelta(hours=3) for event in events)
    (series,) = [
        one for one in api.get(f"{path}/metrics?name=val_accuracy&axis=epoch").json()["series"] if one["rank"] == -1
    ]
    assert (series["x"], series["y"]) == ([1, 2, 3], [0.25, 0.5, 0.75])
    steps = [one for one in api.get(f"{path}/metrics?name=loss").json()["series"] if one["rank"] == 1]
    assert steps[0]["x"] == [1, 2, 3, 4, 5, 6]
    items = api.get(f"{path}/logs").json()["items"]
    assert {when(line["at"]) for line in items} == {when(one["ended_at"]) for one in (first, second)}
    lines = [(line["rank"], line["text"]) for line in items]
    assert lines == [
        (rank, text)
        for attempt in (1, 2)
        for rank, text in (
            (0, f"rank 0 of attempt {attempt}: ärmel"), (0, "end"), (1, f"rank 1 of attempt {attempt}: ärmel"),
            (1, "end"), (-1, "horovodrun \ufffd says"),
        )
    ]  # fmt: skip

    with sessions() as session:  # it counts for nothing, and leaves no upload
        for live in (
            ProjectUsage.project.is_not(None), RunTime.run_key.is_not(None), Attempt.ended_at.is_(None),
            Upload.removed_at.is_(None),
        ):  # fmt: skip
            assert session.scalar(select(func.count()).where(live)) == 0
        row = session.get_one(Job, job["id"])
        assert (row.run_id, row.run_key, row.work_key) == (RUN_ID, None, None)
    assert not any((configuration.datasets / ".uploads").iterdir())
    (entry,) = api.get("/v1/audit?action=job.imported").json()["items"]
    assert entry["subject"] == job["id"]
    refused = api.post("/v1/jobs", json=SPEC | {"model": {"name": "mlp", "weights": f"job:{job['id']}"}})
    assert refused.status_code == 422
    assert "was imported" in refused.json()["detail"]  # its weights are not here


def test_imported_twice_or_at_once_it_is_one_job(api: TestClient, folder: Path, client_of: Any) -> None:
    job_id = imported(api, folder)["id"]
    lines = len(api.get(f"/v1/jobs/{job_id}/logs").json()["items"])
    again = send(api, bytes_of(folder))
    assert (again.status_code, again.json()["id"]) == (200, job_id)
    assert len(api.get(f"/v1/jobs/{job_id}/logs").json()["items"]) == lines
    of_another = send(client_of("ann"), bytes_of(folder))
    assert of_another.status_code == 201
    assert of_another.json()["id"] != job_id

    clients, sent = [client_of("ben"), client_of("ben")], bytes_of(folder)  # two tokens of one user, at once
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda client: send(client, sent), clients))
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_a_run_that_changed_after_its_import_is_refused(api: TestClient, tmp_path: Path, folder: Path) -> None:
    shorter, moved = run_folder(tmp_path / "shorter"), run_folder(tmp_path / "moved", project="vision")
    for path in (shorter, moved):
        shutil.rmtree(path / "attempt-2")
    job = imported(api, shorter)
    assert (job["status"], job["end_reason"]) == ("failed", "preempted")
    assert api.post("/v1/projects", json={"name": "vision"}).status_code == 201
    for changed, why in (
        (folder, "when attempt 1 was its last one, and now it is attempt 2"),
        (moved, "in the project default, and now it is for the project vision"),
    ):
        answer = problem(send(api, bytes_of(changed)), 409, "run-changed")
        assert f"imported as job {job['id']} {why}" in answer["detail"]


def test_an_import_that_breaks_off_leaves_nothing_and_can_be_repeated(
    api: TestClient, sessions: Sessions, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jobs.intake import imported as importing

    with monkeypatch.context() as patch:
        patch.setattr(importing, "touch", lambda *_, **__: 1 / 0)  # after all rows were written
        assert send(api, bytes_of(folder)).status_code == 500
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0
        assert session.scalar(select(func.count()).select_from(LogLine)) == 0
    assert imported(api, folder)["status"] == "succeeded"


def test_lines_that_are_no_records_are_left_out(api: TestClient, folder: Path) -> None:
    log, records, of_killed_rank = (
        folder / "attempt-1" / name for name in ("logs/rank-0.log", "records/rank-0.jsonl", "records/rank-1.jsonl")
    )
    log.write_text("no end")
    with records.open("a") as file:
        file.write("\x00" * 5000 + "\n" + '{"kind": "of a newer Hora", "at": 1}\n')
    with of_killed_rank.open("a") as file:
        file.write('{"kind": "step", "at"')
    job = imported(api, folder)
    assert job["status"] == "succeeded"
    items = api.get(f"/v1/jobs/{job['id']}/logs?rank=0").json()["items"]
    said = "hora: 2 lines of attempt-1/records/rank-0.jsonl are no records: they are left out"
    assert [line["text"] for line in items if line["attempt"] == 1] == ["no end", said]


def test_an_upload_is_kept_for_a_project_that_comes_and_may_not_be_too_large(api: TestClient, tmp_path: Path) -> None:
    upload = {"upload": uploaded(api, bytes_of(run_folder(tmp_path / "run", project="vision")))}
    answer = api.post("/v1/imports", json=upload)
    assert answer.status_code == 422
    (error,) = answer.json()["errors"]
    assert (error["field"], "there is no such project" in error["message"]) == ("project", True)
    assert api.post("/v1/projects", json={"name": "vision"}).status_code == 201
    assert api.post("/v1/imports", json=upload).status_code == 201
    large = api.post("/v1/uploads", json={"filename": "run.jsonl", "size_bytes": 1_000_001, "purpose": "run"})
    assert large.status_code == 422
    assert large.json()["errors"][0]["message"] == "a run may have at most 1000000 bytes here"


def test_imports_work_one_after_the_other_and_take_no_turn_of_others(
    api: TestClient, client_of: Any, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, may_go_on = threading.Semaphore(0), threading.Event()

    def receive_later(sent: Any, to: Path) -> Any:
        begun.release()
        assert may_go_on.wait(60)
        return receive(sent, to)

    monkeypatch.setattr(imports, "receive", receive_later)
    sent, state = bytes_of(folder), api.app.state  # type: ignore[attr-defined]
    with ThreadPoolExecutor(2) as pool:
        answers = [pool.submit(send, client_of(name), sent) for name in ("ann", "bob")]
        try:
            assert begun.acquire(timeout=60)
            until(lambda: state.services.import_turns.count == 2)
            assert not begun.acquire(timeout=0.5 * slowdown())
            assert state.services.turns.count == state.services.drawing_turns.count == 0
        finally:
            may_go_on.set()
        assert [answer.result().status_code for answer in answers] == [201, 201]
