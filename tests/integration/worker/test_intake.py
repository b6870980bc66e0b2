"""What ranks wrote comes into the database once, in fenced batches, whoever reads on."""

import math
from pathlib import Path
from typing import Any

import psycopg
import pytest
from sqlalchemy import select, text

from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent, LogLine, MetricPoint
from jobs.lifecycle import leases
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease, get_job
from jobs.model.plan import DatasetSizes, resolve_plan
from jobs.model.records import (
    CheckpointSaved,
    DataOpened,
    EpochEnded,
    ExitReason,
    PhaseEnded,
    Planned,
    ProbeEnded,
    ProbeFindings,
    ProbeMeasured,
    ProbePoint,
    ProbeStepped,
    RankEpochEnded,
    RankExited,
    RankStarted,
    StepEnded,
    Summarized,
    Summary,
    rank_log_name,
    rank_records_name,
)
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, EventKind, Status
from jobs.telemetry import series
from tests.integration.jobs import job_rows
from worker.attempt.intake import Intake
from worker.attempt.leftovers import store_leftovers
from worker.attempt.paths import AttemptPaths, paths_of

PLAN = resolve_plan(spec_from(job_rows.SPEC), DatasetSizes(train=1350, validation=150))  # 30 epochs of 10 steps
SUMMARY = Summary(
    best_epoch=1, epochs_run=2, val_accuracy=0.9, val_loss=math.nan, train_samples_per_s=9.0, wall_s=1.0, setup_s=1.0,
    parameters=10, trainable_parameters=10, model_bytes=40, after_best_share=0.5, stopped_early=False,
)  # fmt: skip


@pytest.fixture
def lease(sessions: Sessions) -> Lease:
    return job_rows.a_claimed_attempt(sessions)


@pytest.fixture
def paths(tmp_path: Path, lease: Lease) -> AttemptPaths:
    paths = paths_of(tmp_path, lease.job_id, lease.number)
    paths.create()
    return paths


@pytest.fixture
def intake(sessions: Sessions, lease: Lease, paths: AttemptPaths) -> Intake:
    return Intake(sessions, lease, paths, ranks=2)


def write(paths: AttemptPaths, rank: int, *records: Any) -> None:
    with (paths.records / rank_records_name(rank)).open("a") as file:
        file.writelines(record.model_dump_json() + "\n" for record in records)


def write_log(paths: AttemptPaths, rank: int, data: bytes) -> None:
    with (paths.logs / rank_log_name(rank)).open("ab") as file:
        file.write(data)


def started(rank: int) -> RankStarted:
    return RankStarted(at=1.0, rank=rank, local_rank=rank, host="ha", pid=100 + rank)


def step(number: int, loss: float = 1.0) -> StepEnded:
    return StepEnded(
        at=float(number), step=number, epoch=1, step_time_s=0.5, data_wait_s=0.1, allreduce_s=0.2, samples_per_s=256.0,
        metrics={"loss": loss},
    )  # fmt: skip


def losses(sessions: Sessions) -> list[tuple[int, int]]:
    """(rank, step) of every stored loss."""
    point = MetricPoint
    with sessions() as session:
        query = select(point.rank, point.step).where(point.name == "loss").order_by(point.rank, point.step)
        return [(rank, step) for rank, step in session.execute(query)]


def lines(sessions: Sessions) -> list[tuple[int, str]]:
    with sessions() as session:
        return [(one.rank, one.text) for one in session.scalars(select(LogLine).order_by(LogLine.id))]


def test_nothing_new_asks_nothing(intake: Intake) -> None:
    assert not intake.store_new()
    intake.drain()


def test_the_first_rank_starts_the_job_and_every_rank_is_told_of(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, started(0))
    assert intake.store_new()
    assert job_rows.the_job(sessions, lease.job_id).status is Status.RUNNING
    write(paths, 1, started(1))
    intake.store_new()
    assert intake.pids == {0: 100, 1: 101}
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.RANK_STARTED) == 2


def test_every_line_is_stored_once_over_two_readers(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for number in range(1, 51):
        write(paths, number % 2, step(number))
        write_log(paths, number % 2, b"step %d\n" % number)
        if number % 7 == 0:
            intake.store_new()
    successor = Intake(sessions, lease, paths, ranks=2)  # the first one was killed
    write(paths, 0, step(52))
    successor.drain()
    assert losses(sessions) == sorted((number % 2, number) for number in [*range(1, 51), 52])
    assert sorted(line for _, line in lines(sessions)) == sorted(f"step {number}" for number in range(1, 51))
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.FIRST_STEP) == 1
    assert not Intake(sessions, lease, paths, ranks=2).store_new(final=True)


def test_of_two_readers_at_once_only_one_stores(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    second_intake = Intake(sessions, lease, paths, ranks=2)
    write_log(paths, 0, b"one line\n")
    assert intake.store_new()
    with pytest.raises(StaleLease):
        second_intake.store_new()
    assert lines(sessions) == [(0, "one line")]


@pytest.mark.parametrize("loss", ["ended", "taken"])
def test_without_the_lease_nothing_is_stored_and_no_offset_moves(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, loss: str
) -> None:
    write(paths, 0, started(0), step(1))
    intake.store_new()
    offsets = job_rows.the_attempt(sessions, lease).offsets
    with sessions.begin() as session:
        if loss == "ended":
            leases.end(session, lease, EndReason.LEASE_EXPIRED)
        else:
            session.execute(text("UPDATE attempts SET token = gen_random_uuid()"))
    history, revision = job_rows.kinds(sessions, lease.job_id), job_rows.the_job(sessions, lease.job_id).revision
    write(paths, 0, step(2), Summarized(at=1.0, summary=SUMMARY))
    write_log(paths, 0, b"late\n")
    with pytest.raises(StaleLease):
        intake.store_new()
    assert losses(sessions) == [(0, 1)]
    assert lines(sessions) == []
    assert job_rows.the_attempt(sessions, lease).offsets == offsets
    assert job_rows.kinds(sessions, lease.job_id) == history
    assert job_rows.the_job(sessions, lease.job_id).revision == revision


@pytest.fixture
def no_table_for_metrics(sessions: Sessions) -> None:
    """A database in which one of the last statements of a batch fails."""
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE metric_points RENAME TO away"))


def test_a_batch_that_failed_is_stored_whole_the_next_time(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, no_table_for_metrics: None
) -> None:
    write(paths, 0, started(0), step(1))
    write_log(paths, 0, b"one\n")
    with pytest.raises(psycopg.ProgrammingError):
        intake.store_new()
    assert job_rows.the_job(sessions, lease.job_id).status is Status.LAUNCHING
    assert job_rows.the_attempt(sessions, lease).offsets == {}
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE away RENAME TO metric_points"))
    assert intake.store_new()
    assert losses(sessions) == [(0, 1)]
    assert lines(sessions) == [(0, "one")]
    assert job_rows.the_job(sessions, lease.job_id).status is Status.RUNNING
    history = job_rows.kinds(sessions, lease.job_id)
    assert (history.count(EventKind.RANK_STARTED), history.count(EventKind.FIRST_STEP)) == (1, 1)


def test_a_torn_last_line_is_read_when_it_is_whole_or_over(
    sessions: Sessions, paths: AttemptPaths, intake: Intake
) -> None:
    whole = step(1).model_dump_json()
    records = paths.records / rank_records_name(0)
    records.write_text(whole[:20])
    write_log(paths, 1, b"Traceback")
    assert not intake.store_new()
    with records.open("a") as file:
        file.write(whole[20:] + "\n" + whole[:30])
    assert intake.store_new()
    assert losses(sessions) == [(0, 1)]
    intake.drain()
    assert lines(sessions) == [(1, "Traceback")]  # a torn record is none, a torn line is the last word


def test_the_plan_that_the_ranks_agreed_on_counts(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    assert job_rows.the_job(sessions, lease.job_id).plan["steps_per_epoch"] is None
    write(paths, 0, Planned(at=1.0, plan=PLAN, start_epoch=2, start_step=20))
    intake.store_new()
    assert job_rows.the_job(sessions, lease.job_id).plan == PLAN.model_dump(mode="json")
    assert job_rows.the_attempt(sessions, lease).resumed_step == 20


def progress(sessions: Sessions, lease: Lease) -> dict[str, Any]:
    return job_rows.the_job(sessions, lease.job_id).progress or {}


def test_progress_follows_rank_zero_also_for_the_next_reader(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, started(0), Planned(at=1.0, plan=PLAN), *(step(number) for number in range(1, 4)))
    write(paths, 1, step(9))
    intake.store_new()
    expected = {"epoch": 1, "epochs": 30, "step": 3, "steps": 300, "samples_per_s": 256.0, "eta_s": 148.5}
    assert progress(sessions, lease) == expected
    write(paths, 0, step(4))
    Intake(sessions, lease, paths, ranks=2).store_new()
    assert progress(sessions, lease) == expected | {"step": 4, "eta_s": 148.0}


def test_an_epoch_is_a_point_over_all_ranks_and_an_event(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    metrics = {"loss": 0.5, "val_loss": math.inf}
    epoch = EpochEnded(
        at=5.0, epoch=1, step=10, wall_s=2.0, samples_per_s=640.0, learning_rate=0.001, metrics=metrics,
        data_wait_s=0.3, allreduce_s=0.4,
    )  # fmt: skip
    write(paths, 0, epoch, CheckpointSaved(at=6.0, epoch=1, step=10, path="/x", duration_s=0.2))
    intake.store_new()
    with sessions() as session:
        values_of_epoch = {
            point.name: point.value for point in session.scalars(select(MetricPoint)) if point.rank == -1
        }
        events = {event.kind: event for event in session.scalars(select(JobEvent))}
    about_speed = {"samples_per_s": 640.0, "epoch_s": 2.0, "data_wait_s": 0.3, "allreduce_s": 0.4}
    assert values_of_epoch == metrics | {"learning_rate": 0.001} | about_speed
    assert events[EventKind.EPOCH_ENDED].data["val_loss"] is None
    assert events[EventKind.EPOCH_ENDED].at.timestamp() == 5.0
    assert events[EventKind.CHECKPOINT_SAVED].data == {"epoch": 1, "step": 10, "duration_s": 0.2}
    assert progress(sessions, lease)["metrics"] == {"loss": 0.5, "val_loss": None}


def test_what_steps_and_epochs_waited_for_is_kept_of_every_rank(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for rank in (0, 1):
        ended = RankEpochEnded(
            at=5.0, epoch=1, step=10, step_time_p50_s=0.1, step_time_p95_s=0.2, data_wait_s=0.3 + rank, allreduce_s=0.4
        )
        write(paths, rank, step(10), ended)
    intake.store_new()
    with sessions() as session:
        epoch_series = series.metrics(session, job_rows.the_job(sessions, lease.job_id), axis="epoch")
        step_series = series.metrics(session, job_rows.the_job(sessions, lease.job_id), names=["allreduce_s"])
    assert {(one.name, one.rank): (one.x, one.y) for one in epoch_series} == {
        ("step_time_p50_s", 0): ([1], [0.1]),
        ("step_time_p50_s", 1): ([1], [0.1]),
        ("step_time_p95_s", 0): ([1], [0.2]),
        ("step_time_p95_s", 1): ([1], [0.2]),
        ("epoch_data_wait_s", 0): ([1], [0.3]),
        ("epoch_data_wait_s", 1): ([1], [1.3]),
        ("epoch_allreduce_s", 0): ([1], [0.4]),
        ("epoch_allreduce_s", 1): ([1], [0.4]),
    }
    assert [(one.rank, one.x, one.y) for one in step_series] == [(0, [10], [0.2]), (1, [10], [0.2])]


def test_the_phases_of_rank_zero_are_the_attempts_set_up(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    assert job_rows.the_attempt(sessions, lease).setup == {}
    write(paths, 0, PhaseEnded(at=1.0, name="import", duration_s=2.5), PhaseEnded(at=2.0, name="data", duration_s=1.0))
    write(paths, 1, PhaseEnded(at=1.0, name="import", duration_s=9.9))
    intake.store_new()
    write(paths, 0, PhaseEnded(at=3.0, name="first_step", duration_s=0.5))
    Intake(sessions, lease, paths, ranks=2).store_new()
    assert job_rows.the_attempt(sessions, lease).setup == {"import": 2.5, "data": 1.0, "first_step": 0.5}


def test_what_the_data_turned_out_to_be_is_kept_with_the_job(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    opened = DataOpened(
        at=1.0, format="parquet", shape=[21], classes=["a\x00", "b"], train=90, validation=10, test=0, damaged=1,
        damaged_files=["x.parquet: row 7\x00"],
    )  # fmt: skip
    write(paths, 0, opened, opened.model_copy(update={"damaged": 2}))
    intake.store_new()
    with sessions() as session:
        job = get_job(session, lease.job_id)
        assert job.classes == ["a\ufffd", "b"]
        assert job.dataset == {
            "format": "parquet", "shape": [21], "train": 90, "validation": 10, "test": 0, "damaged": 2,
            "damaged_files": ["x.parquet: row 7\ufffd"],
        }  # fmt: skip


def test_the_summary_and_what_the_ranks_said_last(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    long = RankExited(at=9.0, reason=ExitReason.BAD_DATA, message="x" * 100_000)
    write(paths, 0, Summarized(at=8.0, summary=SUMMARY), RankExited(at=9.0, reason=ExitReason.COMPLETED))
    write(paths, 1, long)
    intake.drain()
    assert intake.exits == {0: RankExited(at=9.0, reason=ExitReason.COMPLETED), 1: long}
    assert job_rows.the_job(sessions, lease.job_id).summary == SUMMARY.model_dump() | {"val_loss": None}


def point(batch: int, *, fits: bool = True) -> ProbeMeasured:
    figures = {"steps": 9, "step_time_s": 0.1, "samples_per_s": 20.0 * batch, "memory_bytes": 10**8} if fits else {}
    measured = ProbePoint(per_gpu_batch=batch, global_batch=2 * batch, fits=fits, **figures)
    return ProbeMeasured(at=1.0, point=measured)


def probed(sessions: Sessions, lease: Lease) -> tuple[list[int], Any]:
    """The batches that a job's probe has tried, and why it ended."""
    probe = job_rows.the_job(sessions, lease.job_id).probe or {}
    return [one["per_gpu_batch"] for one in probe["points"]], probe["ended_by"]


def test_a_probe_is_told_of_batch_by_batch_and_begins_anew(sessions: Sessions, tmp_path: Path) -> None:
    lease = job_rows.a_claimed_attempt(sessions, probe={"smallest": 8, "largest": 64})
    paths = paths_of(tmp_path, lease.job_id, lease.number)
    paths.create()
    intake = Intake(sessions, lease, paths, ranks=2)
    write(paths, 0, started(0), Planned(at=1.0, plan=PLAN))
    intake.store_new()
    assert intake.steps_seen == 0
    write(paths, 0, ProbeStepped(at=2.0, per_gpu_batch=8, steps=0), point(8))
    intake.store_new()
    assert intake.steps_seen == 2
    assert job_rows.kinds(sessions, lease.job_id).count(EventKind.FIRST_STEP) == 1
    working = {"epochs": None, "step": 1, "steps": 4, "per_gpu_batch": 8, "samples_per_s": 160.0}
    assert progress(sessions, lease) == working
    assert probed(sessions, lease) == ([8], None)

    successor = Intake(sessions, lease, paths, ranks=2)  # the first one was killed
    ended = ProbeFindings(points=[point(8).point, point(16, fits=False).point], ended_by="memory", batch_size=8)
    write(paths, 0, point(16, fits=False))
    successor.store_new()
    assert probed(sessions, lease) == ([8, 16], None)
    write(paths, 0, ProbeEnded(at=3.0, findings=ended))
    successor.store_new()
    assert job_rows.the_job(sessions, lease.job_id).probe == ended.model_dump(mode="json")
    assert progress(sessions, lease) == working | {"step": 2, "per_gpu_batch": None}

    write(paths, 0, Planned(at=4.0, plan=PLAN))  # as the ranks of a next attempt begin
    successor.store_new()
    assert probed(sessions, lease) == ([], None)
    assert progress(sessions, lease)["step"] == 0


def test_a_training_takes_no_word_of_a_probe(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    write(paths, 0, point(8))
    intake.store_new()
    assert intake.steps_seen == 0
    assert job_rows.the_job(sessions, lease.job_id).probe is None


def test_lines_are_stored_as_postgresql_can_hold_them(sessions: Sessions, paths: AttemptPaths, intake: Intake) -> None:
    write_log(paths, 0, b"nul\x00 \xff gr\xc3\xbcn\r\n\n" + b"\xe2\x82\xac" * 10_000 + b"\n")
    paths.launcher_log.write_bytes(b"from the launcher\n")
    intake.drain()
    stored = lines(sessions)
    assert (0, "nul\ufffd \ufffd grün") in stored
    assert (0, "") in stored
    assert (-1, "from the launcher") in stored
    assert "".join(line for _, line in stored if "€" in line) == "€" * 10_000


def test_garbage_between_records_is_passed_over(sessions: Sessions, paths: AttemptPaths, intake: Intake) -> None:
    with (paths.records / rank_records_name(0)).open("wb") as file:
        file.write(b"\x00\xff\n{}\n" + step(1).model_dump_json().encode() + b'\n{"kind": "step", "at": 1e300}\n')
    write(paths, 0, step(2))
    intake.store_new()
    assert losses(sessions) == [(0, 1), (0, 2)]


def test_what_an_attempt_left_is_stored_by_the_next_one(sessions: Sessions, lease: Lease, paths: AttemptPaths) -> None:
    """It lost its lease with steps and a checkpoint that it had not stored; the next one goes on from there."""
    intake = Intake(sessions, lease, paths, ranks=2)
    write(paths, 0, started(0), step(1))
    intake.store_new()
    write(paths, 0, step(2), step(3), CheckpointSaved(at=3.0, epoch=1, step=3, path="/c", duration_s=0.1))
    write(paths, 1, step(2), step(3))
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LEASE_EXPIRED)
        leases.release(session, lease.attempt_id)
    with pytest.raises(StaleLease):
        intake.drain()
    later = job_rows.an_attempt(sessions, lease.job_id)
    runs_dir = paths.job_dir.parent
    looks: list[None] = []
    store_leftovers(sessions, later, runs_dir, meanwhile=lambda: looks.append(None))
    assert losses(sessions) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3)]
    assert looks
    assert job_rows.kinds(sessions, lease.job_id)[-1] is EventKind.CHECKPOINT_SAVED
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.status, (job.progress or {})["step"]) == (Status.LAUNCHING, 1)  # nothing is said of the job itself
    store_leftovers(sessions, later, runs_dir, meanwhile=lambda: None)
    assert len(losses(sessions)) == 5
    with sessions.begin() as session:
        leases.end(session, later, EndReason.LEASE_EXPIRED)
    write(paths, 0, step(4))
    with pytest.raises(StaleLease):  # whoever stores it has to hold the job
        store_leftovers(sessions, later, runs_dir, meanwhile=lambda: None)
