"""What ranks wrote is stored once, in fenced batches, by however many readers."""

from itertools import pairwise

import psycopg
import pytest
from sqlalchemy import text
from sqlalchemy.exc import ProgrammingError

from jobs.db.engine import Sessions
from jobs.db.tables import WebhookDelivery
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.lifecycle.deliveries import JOB_ALERT
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease
from jobs.model.records import Alerted, CheckpointSaved, CheckpointSkipped, Summarized, rank_records_name
from jobs.model.states import EndReason, EventKind, Status
from jobs.telemetry.last_steps import last_steps
from tests.integration.jobs import job_rows
from tests.integration.jobs.intake.rank_files import (
    SUMMARY,
    log_lines,
    rank_started,
    step_ended,
    stored_losses,
    write,
    write_log,
)
from tests.integration.jobs.test_outbox import a_webhook
from tests.integration.jobs.writing import change
from worker.attempt.leftovers import store_leftovers
from worker.attempt.paths import AttemptPaths


def test_two_readers_in_turn_store_every_line_once(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for number in range(1, 51):
        write(paths, number % 2, step_ended(number))
        write_log(paths, number % 2, b"step %d\n" % number)
        if number % 7 == 0:
            intake.store_new()
    successor = Intake(sessions, lease, paths, ranks=2)  # the first one was killed
    write(paths, 0, step_ended(52))
    successor.drain()
    assert stored_losses(sessions) == sorted((number % 2, number) for number in [*range(1, 51), 52])
    assert sorted(line for _, line in log_lines(sessions)) == sorted(f"step {number}" for number in range(1, 51))
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.FIRST_STEP) == 1
    assert not Intake(sessions, lease, paths, ranks=2).store_new(final=True)


def test_only_one_of_two_concurrent_readers_stores(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    second_intake = Intake(sessions, lease, paths, ranks=2)
    write_log(paths, 0, b"one line\n")
    assert intake.store_new()
    with pytest.raises(StaleLease):
        second_intake.store_new()
    assert log_lines(sessions) == [(0, "one line")]


@pytest.mark.parametrize("how_lost", ["ended", "taken"])
def test_without_the_lease_nothing_is_stored_and_no_offset_moves(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, how_lost: str
) -> None:
    write(paths, 0, rank_started(0), step_ended(1))
    intake.store_new()
    offsets = job_rows.the_attempt(sessions, lease).offsets
    with sessions.begin() as session:
        if how_lost == "ended":
            leases.end(session, lease, EndReason.LEASE_EXPIRED)
        else:
            session.execute(text("UPDATE attempts SET token = gen_random_uuid()"))
    history, revision = job_rows.kinds(sessions, lease.job_id), job_rows.the_job(sessions, lease.job_id).revision
    write(paths, 0, step_ended(2), Summarized(at=1.0, summary=SUMMARY))
    write_log(paths, 0, b"late\n")
    with pytest.raises(StaleLease):
        intake.store_new()
    assert stored_losses(sessions) == [(0, 1)]
    assert log_lines(sessions) == []
    assert job_rows.the_attempt(sessions, lease).offsets == offsets
    assert job_rows.kinds(sessions, lease.job_id) == history
    assert job_rows.the_job(sessions, lease.job_id).revision == revision


@pytest.mark.parametrize("table", ["metric_points", "webhook_deliveries"])  # of the last statements of a batch
def test_a_batch_that_failed_is_stored_whole_and_alerts_once_the_next_time(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, table: str
) -> None:
    a_webhook(sessions, events=[JOB_ALERT])
    write(paths, 0, rank_started(0), step_ended(1), Alerted(at=100.0, level="info", title="slow"))
    write_log(paths, 0, b"one\n")
    change(sessions, text(f"ALTER TABLE {table} RENAME TO away"))
    with pytest.raises((psycopg.ProgrammingError, ProgrammingError)):
        intake.store_new()
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, job.alerts) == (Status.LAUNCHING, 0)
    assert job_rows.the_attempt(sessions, lease).offsets == {}
    history = job_rows.kinds(sessions, lease.job_id)
    change(sessions, text(f"ALTER TABLE away RENAME TO {table}"))
    assert intake.store_new()
    assert stored_losses(sessions) == [(0, 1)]
    assert (0, "one") in log_lines(sessions)
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, job.alerts) == (Status.RUNNING, 1)
    added = job_rows.kinds(sessions, lease.job_id)[len(history) :]
    assert sorted(added) == sorted([EventKind.RANK_STARTED, EventKind.FIRST_STEP, EventKind.ALERT])
    assert job_rows.count(sessions, WebhookDelivery) == 1


def test_a_torn_last_line_is_read_once_it_is_complete_or_the_file_ends_and_garbage_is_skipped(
    sessions: Sessions, paths: AttemptPaths, intake: Intake
) -> None:
    whole = step_ended(1).model_dump_json()
    records = paths.records / rank_records_name(0)
    records.write_bytes(b"\x00\xff\n{}\n" + b'{"kind": "step", "at": 1e300}\n')
    intake.store_new()
    assert not intake.store_new()
    with records.open("a") as file:
        file.write(whole[:20])
    write_log(paths, 1, b"Traceback")
    assert not intake.store_new()
    with records.open("a") as file:
        file.write(whole[20:] + "\n" + whole[:30])
    assert intake.store_new()
    assert stored_losses(sessions) == [(0, 1)]
    intake.drain()
    assert log_lines(sessions) == [(1, "Traceback")]  # a torn record is none, a torn line is the last word


def test_unstorable_bytes_of_lines_are_replaced_and_long_lines_are_kept(
    sessions: Sessions, paths: AttemptPaths, intake: Intake
) -> None:
    write_log(paths, 0, b"nul\x00 \xff gr\xc3\xbcn\r\n\n" + b"\xe2\x82\xac" * 10_000 + b"\n")
    paths.launcher_log.write_bytes(b"from the launcher\n")
    intake.drain()
    stored = log_lines(sessions)
    assert (0, "nul\ufffd \ufffd grün") in stored
    assert (0, "") in stored
    assert (-1, "from the launcher") in stored
    assert "".join(line for _, line in stored if "€" in line) == "€" * 10_000


def test_a_batch_of_an_import_takes_little_memory(sessions: Sessions, lease: Lease, paths: AttemptPaths) -> None:
    its_intake = Intake(sessions, lease, paths, ranks=2, batch_bytes=6400)
    for rank in (0, 1):
        write(paths, rank, *map(step_ended, range(1, 101)))
        write_log(paths, rank, b"\n" * 300)
    torn = CheckpointSkipped(at=1, epoch=1, step=1, why="x" * 7000).model_dump_json()
    with (paths.records / rank_records_name(1)).open("a") as file:
        file.write(torn)
    write_log(paths, 1, b"torn")
    stored = [0]
    while its_intake.store_new():
        stored.append(len(log_lines(sessions)))
    its_intake.drain()
    assert all(after - before <= 100 for before, after in pairwise(stored))
    assert len(log_lines(sessions)) == 601
    with sessions() as session:
        steps = last_steps(session, lease.job_id, lease.number)
    assert [steps[rank, "loss"] for rank in (0, 1)] == [100, 100]
    assert EventKind.CHECKPOINT_SKIPPED in job_rows.kinds(sessions, lease.job_id)


def test_records_left_by_an_attempt_are_stored_by_the_next_one(
    sessions: Sessions, lease: Lease, paths: AttemptPaths
) -> None:
    """The attempt lost its lease before it stored some steps and a checkpoint. The next one continues from there."""
    intake = Intake(sessions, lease, paths, ranks=2)
    write(paths, 0, rank_started(0), step_ended(1))
    intake.store_new()
    write(paths, 0, step_ended(2), step_ended(3), CheckpointSaved(at=3.0, epoch=1, step=3, path="/c", duration_s=0.1))
    write(paths, 1, step_ended(2), step_ended(3))
    job_rows.end_attempt(sessions, lease, EndReason.LEASE_EXPIRED)
    with pytest.raises(StaleLease):
        intake.drain()
    later = job_rows.an_attempt(sessions, lease.job_id)
    runs_dir = paths.job_dir.parent
    looks: list[None] = []
    store_leftovers(sessions, later, runs_dir, meanwhile=lambda: looks.append(None))
    assert stored_losses(sessions) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert looks
    assert job_rows.kinds(sessions, lease.job_id)[-1] is EventKind.CHECKPOINT_SAVED
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, (job.progress or {})["step"]) == (Status.LAUNCHING, 1)  # nothing is said of the job itself
    store_leftovers(sessions, later, runs_dir, meanwhile=lambda: None)
    assert len(stored_losses(sessions)) == 5
    job_rows.end_attempt(sessions, later, EndReason.LEASE_EXPIRED, releases=False)
    write(paths, 0, step_ended(4))
    with pytest.raises(StaleLease):  # only the live attempt of the job may store
        store_leftovers(sessions, later, runs_dir, meanwhile=lambda: None)
