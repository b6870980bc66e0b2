"""A supervisor obeys, ends all processes, and writes how the attempt ended."""

import os
import shutil
import signal
import time
from collections.abc import Callable
from functools import partial

import pytest
from sqlalchemy import select, text
from sqlalchemy.orm import Session

from jobs.db.tables import Attempt
from jobs.lifecycle import leases, store
from jobs.model.preemption import PreemptionCause
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.processes import ProcessId
from jobs.scheduling import placing
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run, short_limit_s
from tests.waiting import slowdown, until
from worker.attempt.processes import pids_with_mark


def test_a_job_whose_rank_has_no_device_fails_with_its_sentence_and_is_not_restarted(run: Run) -> None:
    supervised = run("without a device", max_restarts=3)
    assert supervised.wait_for_end() is EndReason.NO_DEVICE
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.status, job.end_reason, job.attempt) == (Status.FAILED, EndReason.NO_DEVICE, 1)
    assert job.error == supervised.attempt.error == "local rank 0 on host ha has no GPU"


def test_a_job_succeeds_when_its_rank_completes_and_what_it_keeps_is_stored(run: Run) -> None:
    supervised = run("brief")
    (supervised.paths.artifacts / "model.keras").write_bytes(bytes(1000))
    (supervised.paths.checkpoints / "attempt-1").mkdir()
    (supervised.paths.checkpoints / "attempt-1" / "checkpoint-1.npz").write_bytes(bytes(300))
    assert supervised.wait_for_end() is EndReason.COMPLETED
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.status, job.checkpoint_bytes, job.artifact_bytes) == (Status.SUCCEEDED, 300, 1000)


def test_a_supervisor_whose_lease_is_over_starts_nothing(run: Run) -> None:
    """It stood still before the launch: its slots may belong to another attempt."""
    supervised = run(starts_s=0.0)
    supervised.wait_for_exit()
    assert "the lease was over before the launch" in supervised.paths.supervisor_log.read_text()
    assert not supervised.paths.launcher_log.exists()
    assert job_rows.the_attempt(supervised.sessions, supervised.lease).ended_at is None  # the agent ends it


def test_a_cancel_ends_ranks_that_ignore_signals_and_hidden_processes(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    hidden = supervised.hidden_pid()
    assert hidden not in pids_with_mark(supervised.mark)
    cancelled_at = time.monotonic()
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED
    assert time.monotonic() - cancelled_at < 5 * slowdown()
    assert ProcessId.of(hidden) is None


def preempt(session: Session, job_id: str) -> None:
    attempt_id = session.scalars(select(Attempt.id).where(Attempt.job_id == job_id)).one()
    placing.request_preemption(session, [attempt_id], PreemptionCause.for_job("x"))


@pytest.mark.parametrize(
    ("ask", "reason", "error", "status"),
    [
        (store.pause, EndReason.PAUSED, None, Status.QUEUED),
        (partial(store.request_cancel, saves=True), EndReason.CANCELLED, None, Status.CANCELLED),
        (preempt, EndReason.PREEMPTED, "to make room for job x", Status.QUEUED),
    ],
    ids=["pause", "cancel that saves", "preemption"],
)
def test_a_stop_waits_until_the_ranks_have_saved(
    run: Run, ask: Callable[[Session, str], object], reason: EndReason, error: str | None, status: Status
) -> None:
    supervised = run(save_s=1)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        ask(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is reason
    assert supervised.attempt.error == error
    assert (supervised.paths.root / "saved").exists()
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.status, job.restarts) == (status, 0)
    assert status is Status.CANCELLED or job.not_before <= job.queued_at


def test_an_error_of_the_database_is_told_without_its_statement(run: Run) -> None:
    supervised = run()
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        session.execute(text("ALTER TABLE metric_blocks RENAME TO blocks_of_another_schema"))
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    assert supervised.attempt.error == (
        'the supervisor failed: UndefinedTable: relation "metric_blocks" does not exist'
    )


def test_a_removed_run_folder_ends_the_job_with_a_sentence(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    supervised.hidden_pid()  # the rank makes no more files
    shutil.rmtree(supervised.paths.job_dir)
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert job.error == "the folder of the job on host ha was removed while it ran"
    assert supervised.attempt.error == job.error


def test_a_cancel_cuts_short_the_saving_before_it(run: Run) -> None:
    supervised = run(save_s=60)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id, saves=True)
    until(supervised.paths.stop_file.exists)
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED
    assert not (supervised.paths.root / "saved").exists()
    assert job_rows.the_job(supervised.sessions, supervised.lease.job_id).status is Status.CANCELLED


def test_a_supervisor_terminated_while_it_starts_gives_the_job_back(run: Run) -> None:
    supervised = run()
    until((supervised.paths.logs / "rank-0.log").exists)  # it is still importing its modules
    supervised.process.signal(signal.SIGTERM)
    assert supervised.wait_for_end() is EndReason.HOST_LOST
    assert (supervised.paths.root / "saved").exists()
    assert job_rows.the_job(supervised.sessions, supervised.lease.job_id).status is Status.QUEUED


def test_an_attempt_with_a_stopped_rank_ends_as_stalled_and_names_the_rank(run: Run) -> None:
    stall_s = short_limit_s(1.5)
    supervised = run(stall_timeout_s=stall_s)
    supervised.wait_for_steps()
    os.kill(pids_with_mark(supervised.mark)[0], signal.SIGSTOP)
    assert supervised.wait_for_end() is EndReason.STALLED
    assert supervised.attempt.error == f"no step from any rank for {stall_s:g} s; stopped by a signal: rank 0"


def test_a_supervisor_whose_attempt_was_ended_leaves_at_once(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        leases.end(session, supervised.lease, EndReason.LEASE_EXPIRED)
    supervised.wait_for_exit(within_s=10 * slowdown())
    assert pids_with_mark(supervised.mark) == []
    assert job_rows.kinds(supervised.sessions, supervised.lease.job_id)[-2:] == [
        EventKind.ATTEMPT_ENDED,
        EventKind.REQUEUED,
    ]
