"""A real supervisor, with ranks that train nothing: it obeys, keeps its lease, ends all processes, and writes the end.

Its one rank is a program of the standard library, which is both launcher and rank, so that a run takes a second.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions, engine_for, sessions_for
from jobs.db.tables import Attempt, JobEvent, MetricBlock, MetricPoint
from jobs.lifecycle import leases, store
from jobs.lifecycle.store import Lease
from jobs.model.preemption import PreemptionCause
from jobs.model.records import rank_note_name
from jobs.model.states import EndReason, EventKind, Status
from jobs.runtime.processes import MARK, ProcessId, mark_of
from jobs.scheduling import placing
from tests.full_disks import fill_up, small_disk
from tests.integration.jobs import job_rows
from tests.integration.worker.conftest import pid_in
from tests.waiting import slowdown, until
from trainer.note import Note
from worker.attempt import lease_file
from worker.attempt.launcher import SupervisorTask
from worker.attempt.members import Members
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_with_mark, sweep
from worker.attempt.space_lookout import SpaceLookout

# Makes a step every 50 ms; at the stop file it takes `save_s` to save, then ends. `mood` selects how it behaves.
RANK = """
import json, os, signal, subprocess, sys, time
from pathlib import Path

root, mood, save_s = Path(sys.argv[1]), sys.argv[2], float(sys.argv[3])
(root / "logs/rank-0.log").write_text("here I am\\n")
out = open(root / "records/rank-0.jsonl", "a")

def say(kind, **more):
    print(json.dumps({"kind": kind, "at": time.time(), **more}), file=out, flush=True)

def note(**fields):
    with open(root / "records/rank-0.note", "r+") as file:
        file.write(json.dumps(fields).ljust(1023))

say("rank_started", rank=0, local_rank=0, host="ha", pid=os.getpid())
if mood == "deaf":
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    hidden = "env -i setsid sh -c 'echo $$ > %s; exec sleep 600' &" % (root / "hidden")
    subprocess.run(["sh", "-c", hidden], stdout=subprocess.DEVNULL)
if mood == "without space":
    for records in range(25):
        note(records=records, why="No space left on device")
        time.sleep(0.2)
    note(records=25, why="No space left on device", exit={"kind": "exit", "at": 1.0, "reason": "no_space"})
    sys.exit(1)
if mood == "waits for space":
    for waited_s in range(1, 20):
        note(why="No space left on device", waited_s=waited_s)
        time.sleep(0.2)
    say("exit", reason="completed")
    sys.exit(0)
step = 0
while mood == "deaf" or not (root / "stop").exists():
    step += 1
    times = {"step_time_s": 0.05, "data_wait_s": 0, "allreduce_s": 0, "samples_per_s": 1}
    say("step", step=step, epoch=1, **times, metrics={"loss": 1})
    if mood == "brief" and step == 5:
        say("exit", reason="completed")
        sys.exit(0)
    time.sleep(0.05)
until = time.time() + save_s
while time.time() < until:
    time.sleep(0.05)
(root / "saved").touch()
say("exit", reason="stop_requested")
"""
QUICK = {
    "HORA_LEASE_RENEWAL_S": "0.2", "HORA_ORDERS_PERIOD_S": "0.1", "HORA_STOP_FILE_GRACE_S": "0.5",
    "HORA_SIGTERM_GRACE_S": "0.3", "HORA_RESTART_BACKOFF_S": "100",
}  # fmt: skip

_STARTED_S = 60  # a lease that is long enough to start on a busy machine; those of the tests count from then on


def stored_rows(sessions: Sessions) -> int:
    """Rows of points, those in blocks too."""
    return job_rows.count(sessions, MetricPoint) + job_rows.count(sessions, MetricBlock)


class Supervised:
    """An attempt of one rank, and the process that supervises it."""

    def __init__(self, sessions: Sessions, lease: Lease, paths: AttemptPaths, process: "subprocess.Popen[bytes]"):
        self.sessions, self.lease, self.paths, self.process = sessions, lease, paths, process
        self.mark = mark_of(lease.job_id, lease.number)

    @property
    def attempt(self) -> Attempt:
        return job_rows.the_attempt(self.sessions, self.lease)

    def wait_for_steps(self) -> None:
        """Wait until steps are stored."""
        until(lambda: stored_rows(self.sessions), what="a step")

    def hidden_pid(self) -> int:
        """The pid of the child of a deaf rank that has neither its mark nor its session, once it is written."""
        return pid_in(self.paths.root / "hidden")

    def wait_for_end(self) -> EndReason | None:
        """Wait for the supervisor's own end; no process may be left. Returns why the attempt ended."""
        assert self.process.wait(240) == 0, self.paths.supervisor_log.read_text()
        assert pids_with_mark(self.mark) == []
        assert job_rows.holders(self.sessions) == [None]
        return self.attempt.end_reason


Run = Callable[..., Supervised]


@pytest.fixture
def run(sessions: Sessions, database: str, broker: str, tmp_path: Path) -> Iterator[Run]:
    """Place a job of one slot and start its supervisor."""
    started: list[Supervised] = []
    program = tmp_path / "rank.py"
    program.write_text(RANK)

    def run(
        mood: str = "obedient", *, save_s: float = 0.0, lease_s: float = 60, starts_s: float = _STARTED_S, **fields: Any
    ) -> Supervised:
        job_rows.a_host(sessions, slots=1)
        lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1, **fields), slots=[0])
        with sessions.begin() as session:
            leases.claim(session, lease.attempt_id, lease_s=_STARTED_S)
        paths = paths_of(tmp_path / "runs", lease.job_id, lease.number)
        paths.create([0])
        lease_file.extend(paths.lease_file, time.monotonic() + starts_s)
        task = SupervisorTask(
            attempt_id=lease.attempt_id, token=lease.token, job_id=lease.job_id, number=lease.number,
            argv=[sys.executable, "-S", str(program), str(paths.root), mood, str(save_s)],
            environment={"PATH": os.environ["PATH"], MARK: mark_of(lease.job_id, lease.number)},
            launcher_log=str(paths.launcher_log), lease_file=str(paths.lease_file),
        )  # fmt: skip
        variables = {"HOME": str(tmp_path), "DATABASE_URL": database, "BROKER_URL": broker, "HOST_NAME": "ha"}
        variables |= {"LEASE_S": str(lease_s)}
        with paths.supervisor_log.open("ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", "worker.supervisor", str(lease.attempt_id)],
                env={**os.environ, **QUICK, **{f"HORA_{name}": value for name, value in variables.items()}},
                stdin=subprocess.PIPE, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        assert process.stdin is not None
        process.stdin.write(json.dumps(asdict(task)).encode())
        process.stdin.close()
        started.append(Supervised(sessions, lease, paths, process))
        return started[-1]

    yield run
    for supervised in started:
        supervised.process.kill()
        supervised.process.wait(120)
        assert sweep(supervised.mark)


@contextmanager
def unreachable(database: str) -> Iterator[None]:
    """The database refuses new connections, and open ones are closed."""
    name = database.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(database.replace(f"/{name}?", "/hora?"), autocommit=True) as connection:
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        connection.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        yield
        connection.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')


def test_a_job_succeeds_when_its_rank_completes(run: Run) -> None:
    supervised = run("brief")
    assert supervised.wait_for_end() is EndReason.COMPLETED
    assert job_rows.the_job(supervised.sessions, supervised.lease.job_id).status is Status.SUCCEEDED


def test_the_end_of_an_attempt_stores_what_the_job_keeps(run: Run) -> None:
    supervised = run("brief")
    (supervised.paths.artifacts / "model.keras").write_bytes(bytes(1000))
    (supervised.paths.checkpoints / "attempt-1").mkdir()
    (supervised.paths.checkpoints / "attempt-1" / "checkpoint-1.npz").write_bytes(bytes(300))
    assert supervised.wait_for_end() is EndReason.COMPLETED
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.checkpoint_bytes, job.artifact_bytes) == (300, 1000)


def test_a_supervisor_whose_lease_is_over_starts_nothing(run: Run) -> None:
    """It stood still before the launch: its slots may belong to another attempt."""
    supervised = run(starts_s=0.0)
    assert supervised.process.wait(120) == 1
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


def test_a_pause_waits_until_the_ranks_have_saved(run: Run) -> None:
    supervised = run(save_s=1)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        store.pause(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.PAUSED
    assert (supervised.paths.root / "saved").exists()
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert (job.status, job.restarts, job.not_before <= job.queued_at) == (Status.QUEUED, 0, True)


def test_an_error_of_the_database_is_told_without_its_statement(run: Run) -> None:
    supervised = run()
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        session.execute(text("ALTER TABLE metric_points RENAME TO points_of_another_schema"))
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    error = str(supervised.attempt.error)
    assert error.startswith("the supervisor failed: UndefinedTable: ")
    assert "SQL" not in error
    assert supervised.lease.token not in error


@pytest.mark.parametrize("mood", ["obedient", "deaf"])
def test_a_removed_run_folder_ends_the_job_with_a_sentence(run: Run, mood: str) -> None:
    supervised = run(mood)
    supervised.wait_for_steps()
    shutil.rmtree(supervised.paths.job_dir)
    assert supervised.wait_for_end() is EndReason.INTERNAL_ERROR
    job = job_rows.the_job(supervised.sessions, supervised.lease.job_id)
    assert job.error == "the folder of the job on host ha was removed while it ran"
    assert supervised.attempt.error == job.error


def test_a_cancel_cuts_short_the_saving_of_a_pause(run: Run) -> None:
    supervised = run(save_s=60)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        store.pause(session, supervised.lease.job_id)
    until(supervised.paths.stop_file.exists)
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED
    assert not (supervised.paths.root / "saved").exists()
    assert job_rows.the_job(supervised.sessions, supervised.lease.job_id).status is Status.CANCELLED


def test_a_preempted_attempt_saves_first_and_names_the_job_it_makes_room_for(run: Run) -> None:
    supervised = run(save_s=1)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        placing.request_preemption(session, [supervised.lease.attempt_id], PreemptionCause.for_job("x"))
    assert supervised.wait_for_end() is EndReason.PREEMPTED
    assert supervised.attempt.error == "to make room for job x"
    assert (supervised.paths.root / "saved").exists()


def test_a_supervisor_terminated_while_it_starts_gives_the_job_back(run: Run) -> None:
    supervised = run()
    until((supervised.paths.logs / "rank-0.log").exists)  # it is still importing its modules
    supervised.process.terminate()
    assert supervised.wait_for_end() is EndReason.HOST_LOST
    assert (supervised.paths.root / "saved").exists()
    assert job_rows.the_job(supervised.sessions, supervised.lease.job_id).status is Status.QUEUED


def test_an_attempt_with_a_stopped_rank_ends_as_stalled_and_names_the_rank(run: Run) -> None:
    stall_s = round(1.5 * slowdown(), 1)
    supervised = run(stall_timeout_s=stall_s)
    supervised.wait_for_steps()
    os.kill(pids_with_mark(supervised.mark)[0], signal.SIGSTOP)
    assert supervised.wait_for_end() is EndReason.STALLED
    assert supervised.attempt.error == f"no step from any rank for {stall_s:g} s; stopped by a signal: rank 0"


def test_a_supervisor_that_wakes_after_its_lease_writes_nothing_and_ends_its_ranks(run: Run) -> None:
    supervised = run("deaf", lease_s=2 * slowdown())
    supervised.wait_for_steps()
    hidden = supervised.hidden_pid()
    supervised.process.send_signal(signal.SIGSTOP)
    expires = supervised.attempt.lease_expires_at
    with supervised.sessions() as session:
        until(lambda: session.scalar(func.now()) > expires or session.rollback())
    before = stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)
    supervised.process.send_signal(signal.SIGCONT)
    assert supervised.process.wait(120) == 1
    assert (stored_rows(supervised.sessions), job_rows.count(supervised.sessions, JobEvent)) == before
    assert supervised.attempt.ended_at is None  # the reaper ends it
    assert pids_with_mark(supervised.mark) == []
    assert ProcessId.of(hidden) is None


def test_a_supervisor_without_a_database_ends_its_ranks_before_its_lease_expires(run: Run, database: str) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with unreachable(database):
        until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s, what="the end of the ranks")
        assert supervised.process.wait(120) == 1
    assert supervised.attempt.ended_at is None


def test_a_supervisor_without_a_database_for_less_than_its_lease_continues(run: Run, database: str) -> None:
    supervised = run(lease_s=10 * slowdown())
    supervised.wait_for_steps()
    with unreachable(database):
        time.sleep(1)
        assert supervised.process.poll() is None
    rows_before = stored_rows(supervised.sessions)
    until(lambda: stored_rows(supervised.sessions) > rows_before)
    with supervised.sessions.begin() as session:
        store.request_cancel(session, supervised.lease.job_id)
    assert supervised.wait_for_end() is EndReason.CANCELLED


def test_a_locked_row_does_not_keep_the_ranks_alive(run: Run) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:  # like a process stopped in the middle of a transaction
        session.execute(update(Attempt).where(Attempt.id == supervised.lease.attempt_id).values(error="held"))
        until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s + 0.5, what="the end of the ranks")


def test_a_database_that_hangs_does_not_keep_the_ranks_alive(run: Run) -> None:
    lease_s = 3 * slowdown()
    supervised = run("deaf", lease_s=lease_s)
    supervised.wait_for_steps()
    with supervised.sessions() as session:
        others = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
        backends = list(session.scalars(text(others)))
        for pid in backends:
            os.kill(pid, signal.SIGSTOP)
        try:
            until(lambda: not pids_with_mark(supervised.mark), within_s=lease_s + 0.5, what="the end of the ranks")
            assert supervised.process.wait(120) == 1
        finally:
            for pid in backends:
                os.kill(pid, signal.SIGCONT)


def test_a_supervisor_whose_attempt_was_ended_leaves_at_once(run: Run) -> None:
    supervised = run("deaf")
    supervised.wait_for_steps()
    with supervised.sessions.begin() as session:
        leases.end(session, supervised.lease, EndReason.LEASE_EXPIRED)
    assert supervised.process.wait(10 * slowdown()) == 1
    assert pids_with_mark(supervised.mark) == []
    assert job_rows.kinds(supervised.sessions, supervised.lease.job_id)[-2:] == [
        EventKind.ATTEMPT_ENDED,
        EventKind.REQUEUED,
    ]


def test_ranks_that_cannot_write_are_not_stalled_and_say_why_they_end(run: Run, sessions: Sessions) -> None:
    supervised = run("without space", stall_timeout_s=2.0)
    assert supervised.wait_for_end() is EndReason.NO_SPACE
    job = job_rows.the_job(sessions, supervised.lease.job_id)
    assert (job.status, job.restarts, job.losses) == (Status.QUEUED, 0, 1)
    with sessions() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.kind == EventKind.OUT_OF_SPACE)).all()
    assert [event.data for event in events] == [{"rank": 0, "why": "No space left on device"}]


def test_the_wait_for_space_does_not_count_for_the_time_limit(run: Run) -> None:
    assert run("waits for space", time_limit_s=1.0).wait_for_end() is EndReason.COMPLETED


def test_the_event_of_a_full_disk_is_stored_when_the_database_takes_it_again(
    sessions: Sessions, database: str, tmp_path: Path
) -> None:
    job_rows.a_host(sessions, slots=1)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[0])
    paths = paths_of(tmp_path / "runs", lease.job_id, lease.number)
    paths.create([0])
    Note(paths.records / rank_note_name(0)).write(records=1, why="No space left on device")
    engine = engine_for(database, patience_s=0.1)
    lookout = SpaceLookout(sessions_for(engine), lease, paths, [0], Members())
    with sessions.begin() as session:
        session.execute(select(Attempt).with_for_update())
        assert lookout.look()
        with pytest.raises(OperationalError):
            lookout.store_event()
    for _ in range(2):
        lookout.look()
        lookout.store_event()
    engine.dispose()
    with sessions() as session:
        events = session.scalars(select(JobEvent).where(JobEvent.kind == EventKind.OUT_OF_SPACE)).all()
    assert [event.data for event in events] == [{"rank": 0, "why": "No space left on device"}]


def test_an_attempt_that_a_full_disk_ends_uses_up_no_restart(run: Run, sessions: Sessions, tmp_path: Path) -> None:
    """Its rank dies when it cannot write. Its lease is extended and its end stored all the same."""
    with small_disk(tmp_path / "runs", size_bytes=2**20) as disk:
        supervised = run(lease_s=20)
        supervised.wait_for_steps()
        fill_up(disk)
        assert supervised.wait_for_end() is EndReason.NO_SPACE
        assert (supervised.attempt.error or "").startswith("host ha has no space: runs has 0.0 MB free, less than")
    job = job_rows.the_job(sessions, supervised.lease.job_id)
    assert (job.status, job.restarts, job.losses) == (Status.QUEUED, 0, 1)
