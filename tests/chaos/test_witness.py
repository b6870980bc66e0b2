"""The witness and the census report every forbidden change of the rows, and every forbidden process, and no other."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

from jobs.runtime.processes import MARK
from tests.chaos.census import Census, processes_of
from tests.chaos.witness import call_witness, late_points, notes_of, unfinished
from tests.waiting import until

pytestmark = pytest.mark.long("faults")

_PLACED = """
INSERT INTO hosts (name, info) VALUES ('here', '{}');
INSERT INTO jobs (id, name, owner, status, spec, plan, labels, gpus, priority)
  VALUES ('job', 'job', 'o', 'queued', '{}', '{}', '{}', 1, 50);
UPDATE jobs SET status = 'launching', attempt = 1, revision = 2 WHERE id = 'job';
INSERT INTO attempts (id, job_id, number, host, gpus, lease_expires_at) OVERRIDING SYSTEM VALUE
  VALUES (1, 'job', 1, 'here', 1, now());
INSERT INTO slots (host, index, kind, name, attempt_id) VALUES ('here', 0, 'cpu', 'CPU share', NULL);
UPDATE slots SET attempt_id = 1 WHERE index = 0;
UPDATE jobs SET status = 'running' WHERE id = 'job';
"""
_POINT = "INSERT INTO metric_points VALUES ('job', 'loss', 0, {step}, 1, 1, now(), 0.5);"
_ENDED = "UPDATE attempts SET ended_at = now(), end_reason = 'completed' WHERE id = 1;"
_REQUEUED = "UPDATE jobs SET status = 'queued', revision = 3;"
_HEIR = (
    "UPDATE jobs SET status = 'launching', attempt = 2;"
    "INSERT INTO attempts (id, job_id, number, host, gpus, lease_expires_at) OVERRIDING SYSTEM VALUE"
    " VALUES (2, 'job', 2, 'here', 1, now());"
)
_PAUSED = "UPDATE jobs SET paused_at = now();"
_LINE = "INSERT INTO log_lines (job_id, attempt, rank, at, text) VALUES ('job', 1, 0, now(), '')"
_EVENT = "INSERT INTO job_events (job_id, kind, attempt) VALUES ('job', 'epoch_ended', 1)"
_RELEASED = "UPDATE slots SET attempt_id = NULL;"

NotesAfter = Callable[[str], list[str]]


@pytest.fixture
def notes_after(database: str) -> Iterator[NotesAfter]:
    """Runs statements in a database with a placed job and the witness. Returns the notes, without times."""
    with psycopg.connect(database, autocommit=True) as connection:
        call_witness(connection)
        connection.execute(_PLACED)

        def run(statements: str) -> list[str]:
            connection.execute(statements.encode())
            return [what.partition(" ")[2] for what in notes_of(connection)]

        yield run


def test_legal_changes_of_a_job_are_not_noted(notes_after: NotesAfter) -> None:
    life = (
        _POINT.format(step=1),
        _ENDED, _REQUEUED, _RELEASED, _HEIR, "UPDATE slots SET attempt_id = 2;",
        "UPDATE attempts SET offsets = '{\"log:0\": 7}' WHERE id = 1;", _POINT.format(step=2),
        "UPDATE jobs SET status = 'running'; UPDATE jobs SET status = 'succeeded';",
        "UPDATE attempts SET ended_at = now(), end_reason = 'completed' WHERE id = 2;", _RELEASED,
    )  # fmt: skip
    for statements in life:
        assert notes_after(statements) == []


@pytest.mark.parametrize(
    ("before", "crime", "note"),
    [
        ("", "UPDATE jobs SET status = 'launching'", "job job went from running to launching"),
        ("", "UPDATE jobs SET revision = 0", "job job went back, or skipped an attempt"),
        ("", "UPDATE jobs SET attempt = 3", "job job went back, or skipped an attempt"),
        ("UPDATE jobs SET cancel_requested_at = now()", "UPDATE jobs SET status = 'succeeded'", "was to be cancelled"),
        ("UPDATE jobs SET cancel_requested_at = now()", "UPDATE jobs SET cancel_requested_at = NULL", "taken back"),
        (_REQUEUED + _PAUSED, "UPDATE jobs SET status = 'launching'", "placed though"),
        ("", _RELEASED, "slot 0 of here was taken from job.1, which lives"),
        (_ENDED + _REQUEUED + _HEIR, "UPDATE slots SET attempt_id = 2", "leased to job.2 while job.1 had it"),
        (_ENDED + _RELEASED, "UPDATE slots SET attempt_id = 1", "leased to job.1, which has ended"),
        (_ENDED, "UPDATE attempts SET end_reason = 'cancelled'", "attempt job.1 was ended twice"),
        (_ENDED, "UPDATE attempts SET offsets = '{\"log:0\": 7}'", "attempt job.1 was changed after its end"),
        (_ENDED, _POINT.format(step=2), "1 rows of metric_points were written for job.1 after its end"),
        (_ENDED + _RELEASED, "DELETE FROM jobs", "job job was deleted"),
        (_ENDED, _LINE, "log_lines"),
        (_ENDED, _EVENT, "job_events"),
    ],
)  # fmt: skip
def test_a_forbidden_change_is_noted(notes_after: NotesAfter, before: str, crime: str, note: str) -> None:
    assert before == "" or notes_after(before) == []
    assert [note in line for line in notes_after(crime)] == [True], notes_after("")


def test_late_points_and_live_attempts_of_queued_jobs_are_found(notes_after: NotesAfter, database: str) -> None:
    notes_after(_ENDED + _REQUEUED + _HEIR)
    with psycopg.connect(database, autocommit=True) as connection:
        assert late_points(connection) == []
        connection.execute(_POINT.format(step=2).encode())
        assert late_points(connection) == ["1 points of job.1 are younger than its end"]
        assert late_points(connection, {("job", 1)}) == []
        assert unfinished(connection) == []
        connection.execute("UPDATE jobs SET status = 'queued'")
        assert unfinished(connection) == ["job job is queued, and its attempt 2 lives"]


Start = Callable[[str, int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts a process that looks like a rank of an attempt and only waits."""
    (tmp_path / "trainer").write_text("read -r line\n")
    started = []

    def start(mark: str, rank: int) -> "subprocess.Popen[bytes]":
        # bash has an option -m, too.
        process = subprocess.Popen(
            ["python", "-m", "trainer"], executable="/bin/bash", cwd=tmp_path, stdin=subprocess.PIPE,
            env={"HORA_HOME": str(tmp_path), MARK: mark, "HOROVOD_RANK": str(rank)},
        )  # fmt: skip
        started.append(process)
        until(lambda: any(each.process_id.pid == process.pid for each in processes_of(tmp_path)))
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        process.stdin.close()


def test_two_attempts_of_a_job_or_on_a_slot_are_noted_but_a_stopped_rank_does_not_train(
    tmp_path: Path, start: Start
) -> None:
    slots = {("job", 1): 0, ("job", 2): 1, ("other", 1): 2, ("third", 1): 2}
    census = Census([tmp_path], lambda: {attempt: frozenset({("here", slot)}) for attempt, slot in slots.items()})
    first = start("job.1", 1)
    (process,) = processes_of(tmp_path)
    assert (process.process_id.pid, process.role, process.rank) == (first.pid, "rank", 1)
    assert (process.job_id, process.attempt) == ("job", 1)
    assert processes_of(tmp_path / "another") == []
    start("job.2", 0)
    other = start("other.1", 0)
    os.kill(first.pid, signal.SIGSTOP)
    until(lambda: any(process.is_stopped for process in processes_of(tmp_path)))
    census.look()
    assert not census.violations
    os.kill(first.pid, signal.SIGCONT)

    def noted() -> bool:
        census.look()
        return bool(census.violations)

    until(noted, what="the note, once it is awake for long enough")
    os.kill(other.pid, signal.SIGSTOP)  # it still has its slot
    start("third.1", 0)
    census.look()
    said = ("two attempts of one job train at once", "two attempts are on one slot at once")
    assert [words in what for words, what in zip(said, census.violations, strict=True)] == [True, True]
