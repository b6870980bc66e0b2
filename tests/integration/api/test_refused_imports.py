"""Runs that are damaged or hostile, imported over HTTP: what is refused, with its place."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from jobs.db.engine import Sessions
from jobs.db.tables import Job, LogLine, Upload
from jobs.runtime.settings import Settings
from tests.integration.api.sent_runs import bytes_of, send
from tests.integration.api.starting_rows import TOKEN
from tests.runs import BEGAN, PLAN, run_folder, seconds_after


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, max_import_mb=1)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return run_folder(tmp_path / "run")


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
    "garbage in records": (
        text(text="garbage\n" * 1001), "attempt-1/records/rank-0.jsonl line 1001",
        "at most 1000 lines that are no records, and this one has 1001",
    ),
    "a record of a script": (
        text(text='{"kind": "report", "at": 1, "metrics": {}}\n'), "attempt-1/records/rank-0.jsonl line 1",
        "report is no record of a rank",
    ),
    "a record before its attempt": (
        text(text='{"kind": "phase_ended", "at": 1, "name": "data", "duration_s": 1}\n'),
        "attempt-1/records/rank-0.jsonl line 1", "at is not between the start and the end of attempt 1",
    ),
    "a record after its attempt": (
        text(text='{"kind": "rank_started", "at": 253402300799, "rank": 0, "local_rank": 0, "host": "n", "pid": 1}\n'),
        "attempt-1/records/rank-0.jsonl line 1", "at is not between the start and the end of attempt 1",
    ),
    "many metrics": (
        text(
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
            with sessions() as session:
                assert session.scalar(select(func.count()).select_from(Job)) == 0
                assert session.scalar(select(func.count()).select_from(LogLine)) == 0
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
