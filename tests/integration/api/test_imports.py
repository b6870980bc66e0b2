"""Runs that were trained without the service, imported over HTTP: what the job then says, and what is refused."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from hora.service.sending_runs import packed_run
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Job, LogLine, ProjectUsage, RunTime, Upload
from jobs.runtime.settings import Settings
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.runs import BEGAN, PLAN, RUN_ID, run_folder

OCTETS = {"Content-Type": "application/octet-stream"}


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, max_import_mb=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run")


def bytes_of(folder: Path) -> bytes:
    with packed_run(folder) as run:
        return run.read(0, run.size_bytes)


def send(api: TestClient, sent: bytes) -> Any:
    """The answer to an import of these bytes."""
    new = {"filename": "run.jsonl", "size_bytes": len(sent), "purpose": "run"}
    upload = api.post("/v1/uploads", json=new)
    assert upload.status_code == 201, upload.text
    upload_id = upload.json()["id"]
    piece = api.put(f"/v1/uploads/{upload_id}/content?offset=0", content=sent, headers=OCTETS)
    assert piece.status_code == 200, piece.text
    return api.post("/v1/jobs/imported", json={"upload": upload_id})


def imported(api: TestClient, folder: Path) -> Any:
    answer = send(api, bytes_of(folder))
    assert answer.status_code == 201, answer.text
    return answer.json()


def when(text: str) -> datetime:
    return datetime.fromisoformat(text)


def test_a_run_becomes_a_job_with_the_times_of_the_run(api: TestClient, folder: Path) -> None:
    answer = send(api, bytes_of(folder))
    assert answer.status_code == 201, answer.text
    job = api.get(answer.headers["Location"]).json()
    assert job["id"] == answer.json()["id"]
    assert (job["status"], job["end_reason"], job["error"]) == ("succeeded", "completed", None)
    assert (job["name"], job["labels"], job["gpus"], job["attempt"]) == ("digits alone", {"team": "vision"}, 2, 2)
    assert (job["run_id"], when(job["created_at"])) == (RUN_ID, BEGAN)
    assert when(job["started_at"]) == BEGAN + timedelta(hours=1, seconds=1)
    assert when(job["ended_at"]) == BEGAN + timedelta(hours=2, minutes=30)
    assert job["summary"]["val_accuracy"] == 0.75
    assert job["metrics"]["val_accuracy"] == {"last": 0.75, "best": 0.75, "best_epoch": 3}
    assert (job["checkpoint_bytes"], job["artifact_bytes"]) == (None, None)
    assert (job["restarts"], job["losses"]) == (0, 0)


def test_its_attempts_events_curves_and_lines_are_those_of_the_files(api: TestClient, folder: Path) -> None:
    path = f"/v1/jobs/{imported(api, folder)['id']}"
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


def test_imported_twice_it_is_one_job(api: TestClient, folder: Path, client_of: Any) -> None:
    job_id = imported(api, folder)["id"]
    lines = len(api.get(f"/v1/jobs/{job_id}/logs").json()["items"])
    again = send(api, bytes_of(folder))
    assert (again.status_code, again.json()["id"]) == (200, job_id)
    assert len(api.get(f"/v1/jobs/{job_id}/logs").json()["items"]) == lines
    of_another = send(client_of("ann"), bytes_of(folder))
    assert of_another.status_code == 201
    assert of_another.json()["id"] != job_id


def test_two_imports_at_once_make_one_job(api: TestClient, folder: Path, client_of: Any) -> None:
    clients = [api, client_of("admin", "admin")]  # other tokens may be of the same user
    sent = bytes_of(folder)
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(lambda client: send(client, sent), clients))
    assert sorted(answer.status_code for answer in answers) == [200, 201]
    assert len({answer.json()["id"] for answer in answers}) == 1


def test_one_that_went_on_after_its_import_is_refused(api: TestClient, tmp_path: Path, folder: Path) -> None:
    shorter = run_folder(tmp_path / "shorter")
    for path in sorted((shorter / "attempt-2").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    job = imported(api, shorter)
    assert (job["status"], job["end_reason"]) == ("failed", "preempted")
    answer = send(api, bytes_of(folder))
    assert answer.status_code == 409
    assert answer.json()["type"] == "urn:hora:problem:run-changed"
    assert (
        f"imported as job {job['id']} when attempt 1 was its last one, and now it is attempt 2"
        in answer.json()["detail"]
    )


def test_it_counts_for_nothing_and_leaves_no_upload(
    api: TestClient, sessions: Sessions, configuration: Settings, folder: Path
) -> None:
    job_id = imported(api, folder)["id"]
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(ProjectUsage)) == 0
        assert session.scalar(select(func.count()).select_from(RunTime)) == 0
        assert session.scalar(select(func.count()).select_from(Attempt).where(Attempt.ended_at.is_(None))) == 0
        assert session.scalar(select(func.count()).select_from(Upload).where(Upload.removed_at.is_(None))) == 0
        job = session.get_one(Job, job_id)
        assert (job.run_id, job.run_key, job.work_key) == (RUN_ID, None, None)
    assert not any((configuration.datasets / ".uploads").iterdir())
    (entry,) = api.get("/v1/audit?action=job.imported").json()["items"]
    assert entry["subject"] == job_id


def test_its_weights_are_not_here(api: TestClient, folder: Path) -> None:
    job_id = imported(api, folder)["id"]
    answer = api.post("/v1/jobs", json=SPEC | {"model": {"name": "mlp", "weights": f"job:{job_id}"}})
    assert answer.status_code == 422
    assert "was imported" in answer.json()["detail"]


def changed_line(number: int, change: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """What is sent, with one of its lines changed."""

    def changed(sent: bytes) -> bytes:
        lines = sent.splitlines(keepends=True)
        document = json.loads(lines[number])
        change(document)
        lines[number] = json.dumps(document).encode() + b"\n"
        return b"".join(lines)

    return changed


def head(**changes: Any) -> Callable[[bytes], bytes]:
    return changed_line(0, lambda document: document["run"].update(changes))


def attempt(number: int, /, **changes: Any) -> Callable[[bytes], bytes]:
    return changed_line(0, lambda document: document["attempts"][number - 1].update(changes))


def text(**changes: Any) -> Callable[[bytes], bytes]:
    return changed_line(1, lambda document: document.update(changes))


REFUSED: Mapping[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "nothing of it": (lambda _: b"\n", "", "Invalid JSON"),
    "no JSON": (lambda _: b"\x80\x04pickled", "", "Invalid JSON"),
    "a huge head": (lambda _: b'{"run": "' + b"x" * 900_000, "", "Invalid JSON"),
    "a wrong id": (head(id="../../etc/passwd"), "run.id", ""),
    "an unknown field": (head(owner="root"), "run.owner", "no such field"),
    "a wrong spec": (head(spec={"dataset": "digits", "gpus": 0}), "run.spec.gpus", ""),
    "code": (head(spec={"code": "0" * 64, "command": ["sh"]}), "run", "no code of its own"),
    "a project that is not here": (head(spec={"dataset": "digits", "project": "x"}), "project", "no such project"),
    "a time before all": (head(created_at="0001-01-01T00:00:00Z"), "run.created_at", "after the year 1999"),
    "a time to come": (attempt(2, ended_at="2999-01-01T00:00:00Z"), "attempts.1.ended_at", "in the future"),
    "attempts that overlap": (attempt(2, started_at=BEGAN.isoformat()), "attempts", "attempt 2 started before"),
    "an attempt without its end": (attempt(2, ended_at=None), "attempts", "attempt 2 has not ended"),
    "a missing attempt": (attempt(2, number=3), "attempts", "attempt 2 is missing"),
    "a node that is a path": (attempt(1, nodes=[{"name": "../n", "ranks": 1}]), "attempts.0.nodes.0.name", ""),
    "too many ranks of an attempt": (
        attempt(1, nodes=[{"name": "n1", "ranks": 4096}, {"name": "n2", "ranks": 1}]), "attempts.0.nodes",
        "at most 4096 ranks",
    ),
    "a node twice": (attempt(1, nodes=[{"name": "n1", "ranks": 1}] * 2), "attempts.0.nodes", "n1 is there twice"),
    "an unknown reason": (attempt(1, reason="because"), "attempts.0.reason", ""),
    "text of no attempt": (text(attempt=3), "line 2", "the run has no attempt 3"),
    "text of no rank": (text(rank=2), "line 2", "attempt 1 has no records of rank 2"),
    "records of the launcher": (text(rank=-1), "line 2", "attempt 1 has no records of rank -1"),
    "a file name": (text(rank="../x"), "line 2.rank", ""),
    "garbage in records": (text(text="garbage\n"), "attempt-1/records/rank-0.jsonl line 1", "is no record"),
    "a record of a script": (
        text(text='{"kind": "report", "at": 1, "metrics": {}}\n'), "attempt-1/records/rank-0.jsonl line 1",
        "report is no record of a rank",
    ),
    "many metrics": (
        text(
            text=json.dumps(
                {
                    "kind": "step", "at": 1, "step": 1, "epoch": 1, "step_time_s": 1, "data_wait_s": 1,
                    "allreduce_s": 1, "samples_per_s": 1, "metrics": {f"m{number}": 1 for number in range(1001)},
                }
            )
            + "\n"
        ),
        "attempt-1/records/rank-0.jsonl line 1", "at most 1000 metrics",
    ),
    "an end without results": (
        lambda sent: sent.splitlines(keepends=True)[0], "attempt-2/records/rank-0.jsonl", "no results",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_damaged_or_hostile_is_refused_at_its_place(
    api: TestClient, sessions: Sessions, folder: Path, case: str
) -> None:
    change, field, message = REFUSED[case]
    answer = send(api, change(bytes_of(folder)))
    assert answer.status_code == 422, answer.text
    assert answer.headers["Content-Type"] == "application/problem+json"
    (error, *_) = answer.json()["errors"]
    assert (error["field"], message in error["message"]) == (field, True), error
    with sessions() as session:
        assert session.scalar(select(func.count()).select_from(Job)) == 0
        assert session.scalar(select(func.count()).select_from(LogLine)) == 0
        assert session.scalar(select(func.count()).select_from(Upload).where(Upload.removed_at.is_(None))) == 0


def test_a_run_that_is_too_large_is_refused_before_it_is_sent(api: TestClient) -> None:
    answer = api.post("/v1/uploads", json={"filename": "run.jsonl", "size_bytes": 1_000_001, "purpose": "run"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["message"] == "a run may have at most 1000000 bytes here"


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


def test_a_last_line_that_a_killed_rank_did_not_finish_is_left_out(api: TestClient, folder: Path) -> None:
    with (folder / "attempt-1" / "records" / "rank-1.jsonl").open("a") as file:
        file.write('{"kind": "step", "at"')
    assert imported(api, folder)["status"] == "succeeded"


_COMPUTED = ("/analysis", "/advice", "/utilization")
HOSTILE_NUMBERS: list[dict[str, Any]] = [
    {"kind": "step", "step": 2**63 - 1, "epoch": 2**31 - 1},
    {"kind": "step", "step": 0, "epoch": 0},
    {"kind": "step", "step": 5, "epoch": 1, "metrics": {"loss": "NaN", "\U0001f600": 1e308}},
    {"kind": "step", "step": 4, "epoch": 1, "at": 253_402_300_799},
    {"kind": "step", "step": 4, "epoch": 9, "at": 0},
    {"kind": "epoch", "step": 2**63 - 1, "epoch": 2**31 - 1},
    {"kind": "epoch", "step": 1, "epoch": 1, "metrics": {"loss": "-Infinity"}},
    {"kind": "rank_started", "rank": -(10**30), "local_rank": 10**30, "host": "\x00\ud83d", "pid": 10**30},
    {"kind": "phase_ended", "name": "\x00" * 99, "duration_s": "Infinity"},
    {
        "kind": "checkpoint", "step": 2**63 - 1, "epoch": 1, "path": "", "duration_s": "NaN", "kept": 1,
        "stored_bytes": 2**63 - 1,
    },
    {"kind": "planned", "start_step": 2**63 - 1, "plan": {"gpus": 10**30}},
]  # fmt: skip
NUMBERS = {"step_time_s": 1, "data_wait_s": 1, "allreduce_s": 1, "samples_per_s": 1, "metrics": {"loss": 1}}


@pytest.mark.parametrize("number", range(len(HOSTILE_NUMBERS)))
def test_records_with_odd_values_are_stored_or_refused(api: TestClient, folder: Path, number: int) -> None:
    record = {"at": 1.0, **HOSTILE_NUMBERS[number]}
    if record["kind"] in ("step", "epoch"):
        record = NUMBERS | record
    if record["kind"] == "epoch":
        del record["step_time_s"]
        record |= {"wall_s": 1, "learning_rate": 1}
    if record["kind"] == "planned":
        record["plan"] = json.loads(PLAN.model_dump_json()) | record["plan"]
    file = folder / "attempt-1" / "records" / "rank-0.jsonl"
    for _ in range(2):
        with file.open("a") as content:
            content.write(json.dumps(record) + "\n")
    answer = send(api, bytes_of(folder))
    assert answer.status_code in (201, 422), answer.text
    if answer.status_code == 201:
        path = f"/v1/jobs/{answer.json()['id']}"
        for part in ("", "/events", "/attempts", "/metrics?axis=epoch", "/metrics", "/logs", *_COMPUTED):
            assert api.get(path + part).status_code == 200, part
