"""Runs that were trained without the service, imported over HTTP: what the job then says, and what is refused."""

import json
import shutil
import threading
from collections.abc import Callable, Mapping
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
from tests.integration.jobs.job_rows import count
from tests.runs import BEGAN, PLAN, RUN_ID, run_folder, seconds_after
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
    assert count(sessions, Job) == count(sessions, LogLine) == 0
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


def of_attempt(number: int, /, **changes: Any) -> Callable[[bytes], bytes]:
    return changed_line(0, lambda document: document["attempts"][number - 1].update(changes))


def part(**changes: Any) -> Callable[[bytes], bytes]:
    return changed_line(1, lambda document: document.update(changes))


REFUSED: Mapping[str, tuple[Callable[[bytes], bytes], str, str]] = {
    "no JSON": (lambda _: b"\x80\x04pickled", "", "Invalid JSON"),
    "a huge head": (lambda _: b'{"run": "' + b"x" * 900_000, "", "Invalid JSON"),
    "a wrong id": (head(id="../../etc/passwd"), "run.id", ""),
    "an unknown field": (head(owner="root"), "run.owner", "no such field"),
    "code": (head(spec={"code": "0" * 64, "command": ["sh"]}), "run", "no code of its own"),
    "a time to come": (of_attempt(2, ended_at="2999-01-01T00:00:00Z"), "attempts.1.ended_at", "in the future"),
    "attempts that overlap": (of_attempt(2, started_at=BEGAN.isoformat()), "attempts", "attempt 2 started before"),
    "a missing attempt": (of_attempt(2, number=3), "attempts", "attempt 2 is missing"),
    "a node that is a path": (of_attempt(1, nodes=[{"name": "../n", "ranks": 1}]), "attempts.0.nodes.0.name", ""),
    "too many ranks of an attempt": (
        of_attempt(1, nodes=[{"name": "n1", "ranks": 4096}, {"name": "n2", "ranks": 1}]), "attempts.0.nodes",
        "at most 4096 ranks",
    ),
    "text of no rank": (part(rank=2), "line 2", "attempt 1 has no records of rank 2"),
    "a file name": (part(rank="../x"), "line 2.rank", ""),
    "garbage in records": (
        part(text="garbage\n" * 1001), "attempt-1/records/rank-0.jsonl line 1001",
        "at most 1000 lines that are no records, and this one has 1001",
    ),
    "a record of a script": (
        part(text='{"kind": "report", "at": 1, "metrics": {}}\n'), "attempt-1/records/rank-0.jsonl line 1",
        "report is no record of a rank",
    ),
    "a record after its attempt": (
        part(text='{"kind": "rank_started", "at": 253402300799, "rank": 0, "local_rank": 0, "host": "n", "pid": 1}\n'),
        "attempt-1/records/rank-0.jsonl line 1", "at is not between the start and the end of attempt 1",
    ),
    "many metrics": (
        part(
            text=json.dumps(
                {
                    "kind": "step", "at": seconds_after(1), "step": 1, "epoch": 1, "step_time_s": 1, "data_wait_s": 1,
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


def test_what_is_damaged_or_hostile_is_refused_at_its_place(
    api: TestClient, sessions: Sessions, folder: Path, subtests: pytest.Subtests
) -> None:
    for case, (change, field, message) in REFUSED.items():
        with subtests.test(case=case):
            answer = send(api, change(bytes_of(folder)))
            assert answer.status_code == 422, answer.text
            assert answer.headers["Content-Type"] == "application/problem+json"
            (error, *_) = answer.json()["errors"]
            assert (error["field"], message in error["message"]) == (field, True), error
            assert count(sessions, Job) == count(sessions, LogLine) == 0
            with sessions() as session:
                assert session.scalar(select(func.count()).where(Upload.removed_at.is_(None))) == 0


_COMPUTED = ("/analysis", "/advice", "/utilization")
HOSTILE_NUMBERS: list[dict[str, Any]] = [
    {"kind": "step", "step": 2**63 - 1, "epoch": 2**31 - 1},
    {"kind": "step", "step": 0, "epoch": 0},
    {"kind": "step", "step": 5, "epoch": 1, "metrics": {"loss": "NaN", "\U0001f600": 1e308}},
    {"kind": "step", "step": 4, "epoch": 1, "at": seconds_after(1) + 5399},
    {"kind": "step", "step": 4, "epoch": 9, "at": seconds_after(1) - 3599},
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


def test_records_with_odd_values_are_stored_or_refused(
    client_of: Callable[..., TestClient], tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for number, odd in enumerate(HOSTILE_NUMBERS):
        record = {"at": seconds_after(1), **odd}
        if record["kind"] in ("step", "epoch"):
            record = NUMBERS | record
        if record["kind"] == "epoch":
            del record["step_time_s"]
            record |= {"wall_s": 1, "learning_rate": 1}
        if record["kind"] == "planned":
            record["plan"] = json.loads(PLAN.model_dump_json()) | record["plan"]
        folder, user = run_folder(tmp_path / str(number)), client_of(f"user{number}")
        with (folder / "attempt-1" / "records" / "rank-0.jsonl").open("a") as content:
            content.write(2 * (json.dumps(record) + "\n"))
        with subtests.test(number=number):
            answer = send(user, bytes_of(folder))
            assert answer.status_code in (201, 422), answer.text
            parts = ("", "/events", "/attempts", "/metrics?axis=epoch", "/metrics", "/logs", *_COMPUTED)
            if answer.status_code == 201:
                path = f"/v1/jobs/{answer.json()['id']}"
                assert [part for part in parts if user.get(path + part).status_code != 200] == []
