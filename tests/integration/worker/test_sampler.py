"""Samples of every leased slot and of the host: read from the real system, and stored."""

import os
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pytest
from sqlalchemy import text, update
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Slot
from jobs.lifecycle.store import Lease, touch
from jobs.model.records import CheckpointSaved, EpochEnded, RankEpochEnded, RankStarted, rank_records_name
from jobs.model.states import EndReason
from jobs.runtime.processes import mark_of
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change, write
from tests.integration.worker.conftest import Start
from tests.integration.worker.samples import MakeSampler, step_line, stored_host_samples, stored_samples
from tests.waiting import until
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_with_mark
from worker.sampling import sampler as sampler_module
from worker.sampling.rank_steps import NO_STEP, RankOnHost, RankSteps, Step, newest_step
from worker.sampling.sampler import Sampler


def write_step(paths: AttemptPaths, rank: int, step: int, epoch: int) -> None:
    paths.create()
    with (paths.records / rank_records_name(rank)).open("a") as file:
        file.write(step_line(step, epoch))


def start_ranks(start: Start, lease: Lease, *, ranks: int = 2) -> None:
    mark = mark_of(lease.job_id, lease.number)
    for rank in range(ranks):
        start("exec sleep 60", HORA_ATTEMPT=mark, HOROVOD_RANK=str(rank))
    until(lambda: len(pids_with_mark(mark)) == ranks)


def test_each_leased_slot_gets_a_row_with_the_newest_step(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = job_rows.a_running_attempt(sessions)
    job_rows.a_host(sessions, slots=4)  # two more, free
    job_rows.a_host(sessions, "hb")
    job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    start_ranks(start, lease)
    assert sampler.sample() == 2
    write(sessions, touch, lease.job_id, progress={"step": 41, "epoch": 3})
    assert sampler.sample() == 2
    rows = stored_samples(sessions)
    assert [(row.job_id, row.attempt, row.rank, row.host, row.slot, row.step, row.epoch) for row in rows] == [
        (lease.job_id, 1, 0, "ha", 0, None, None),
        (lease.job_id, 1, 1, "ha", 1, None, None),
        (lease.job_id, 1, 0, "ha", 0, 41, 3),
        (lease.job_id, 1, 1, "ha", 1, 41, 3),
    ]
    assert all(row.memory_bytes for row in rows)
    assert [row.cpu_percent is None for row in rows] == [True, True, False, False]
    assert {row.gpu_percent for row in rows} == {None}


def test_slots_of_a_mirrored_job_share_what_its_rank_uses(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = job_rows.a_running_attempt(sessions, strategy="mirrored")
    start_ranks(start, lease, ranks=1)
    assert sampler.sample() == sampler.sample() == 2
    rows = stored_samples(sessions)
    assert [(row.rank, row.slot) for row in rows] == [(0, 0), (1, 1)] * 2
    assert 0 < rows[2].memory_bytes == rows[3].memory_bytes
    assert rows[2].cpu_percent == rows[3].cpu_percent is not None


def test_the_step_in_a_file_comes_before_stored_progress(sessions: Sessions, sampler: Sampler, tmp_path: Path) -> None:
    lease = job_rows.a_running_attempt(sessions)
    write(sessions, touch, lease.job_id, progress={"step": 40, "epoch": 2})
    sampler.sample()
    write_step(paths_of(tmp_path, lease.job_id, lease.number), 0, 57, 3)
    sampler.sample()
    rows = stored_samples(sessions)
    assert [(row.step, row.epoch) for row in rows] == [(40, 2), (40, 2), (57, 3), (40, 2)]
    assert {(row.cpu_percent, row.memory_bytes) for row in rows} == {(None, None)}, "no rank is up"


def test_a_member_reads_steps_from_its_own_file(sessions: Sessions, make_sampler: MakeSampler, tmp_path: Path) -> None:
    job_rows.a_host(sessions, "hb", slots=1)
    lease = job_rows.a_running_attempt(sessions)
    change(sessions, update(Slot).where(Slot.host == "hb").values(attempt_id=lease.attempt_id, rank=2))
    paths, sampler = paths_of(tmp_path, lease.job_id, lease.number), make_sampler(host="hb")
    sampler.sample()
    write_step(paths, 2, 1, 1)  # the lead's copy, if the folder is shared
    write_step(paths.of_member("hb"), 2, 9, 1)
    sampler.sample()
    assert [(row.host, row.rank, row.step) for row in stored_samples(sessions)] == [("hb", 2, None), ("hb", 2, 9)]


def test_every_sample_stores_a_row_of_the_host(sessions: Sessions, sampler: Sampler) -> None:
    sampler.sample()
    [first] = stored_host_samples(sessions)
    assert (first.host, first.cpu_percent, first.network_sent_bytes_per_s) == ("ha", None, None)
    assert first.memory_bytes

    def has_share() -> bool:  # two samples within one 10 ms tick of the system give no CPU share
        sampler.sample()
        return stored_host_samples(sessions)[-1].cpu_percent is not None

    until(has_share)
    assert 0 <= stored_host_samples(sessions)[-1].cpu_percent <= 100


def test_readings_wait_for_an_unreachable_database_and_keep_their_time(
    sessions: Sessions, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except those of an attempt that ends meanwhile."""
    job_rows.a_host(sessions, slots=4)
    stays, over = (job_rows.an_attempt(sessions, job_rows.a_job(sessions), slots=slots) for slots in ((0, 1), (2, 3)))
    sampler.sample()
    before = datetime.now(UTC)
    with monkeypatch.context() as away:
        away.setattr(sampler_module, "leased_slots", is_away)
        with pytest.raises(OperationalError):
            sampler.sample()
        for _ in range(3):
            assert sampler.sample() == 0  # the database is not tried for a while
    after = datetime.now(UTC)
    job_rows.end_attempt(sessions, over, EndReason.LEASE_EXPIRED)
    next_lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions), slots=(2, 3))
    sampler._away_until = 0.0
    assert sampler.sample() == 2 * 5 + 2
    rows = stored_samples(sessions)
    assert Counter(row.job_id for row in rows) == {stays.job_id: 2 * 6, over.job_id: 2, next_lease.job_id: 2}
    assert len({row.at for row in rows}) == 6
    assert len([row for row in rows if before < row.at < after]) == 2 * 4
    assert len(stored_host_samples(sessions)) == 6
    assert sampler.sample() == 4


def is_away(*_: object) -> None:
    raise OperationalError("SELECT", None, Exception("away"))


def test_a_reading_that_cannot_be_stored_does_not_stop_later_ones(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_running_attempt(sessions)
    sampler.sample()
    sampler._away_until = float("inf")
    sampler.sample()
    reading, leased = sampler._unstored[0]
    sampler._unstored[0] = replace(reading, host=reading.host._replace(memory_bytes=2**70)), leased
    sampler._away_until = 0.0
    with pytest.raises(psycopg.DataError):
        sampler.sample()
    assert sampler.sample() == 2


def test_only_the_newest_readings_are_kept(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_running_attempt(sessions)
    sampler.sample()
    sampler._away_until = float("inf")
    for _ in range(70):
        sampler.sample()
    sampler._away_until = 0.0
    assert sampler.sample() == 2 * 61


def test_none_ends_while_it_is_sampled(sessions: Sessions, sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    lease = job_rows.a_running_attempt(sessions)
    store = sampler_module.store_samples

    def ends_meanwhile(*arguments: object) -> None:
        ends = update(Attempt).where(Attempt.id == lease.attempt_id).values(ended_at=datetime.now(UTC))
        with sessions() as other:
            other.execute(text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(OperationalError, match="lock timeout"):
                other.execute(ends)
        store(*arguments)

    monkeypatch.setattr(sampler_module, "store_samples", ends_meanwhile)
    assert sampler.sample() == 2


def test_readings_of_a_host_without_jobs_are_stored_together(sessions: Sessions, make_sampler: MakeSampler) -> None:
    job_rows.a_host(sessions)
    sampler = make_sampler(report_period_s=3600.0)
    sampler.once()
    assert len(stored_host_samples(sessions)) == 1  # nobody watches its slots
    sampler.watch(3600.0)
    for _ in range(3):
        sampler.once()
    assert len(stored_host_samples(sessions)) == 1
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    (watched,) = sampler.watched()
    watched.found()
    for _ in range(2):
        sampler.once()
    assert len(stored_host_samples(sessions)) == 6
    assert [row.job_id for row in stored_samples(sessions)] == [lease.job_id] * 4  # of two slots, since it was found
    sampler.watch(0.0)
    sampler.once()
    assert len(stored_host_samples(sessions)) == 7


RANK = RankOnHost("job", 2, 1, is_led_here=True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where the rank writes."""
    paths = paths_of(tmp_path, RANK.job_id, RANK.attempt)
    paths.create()
    return paths.records / rank_records_name(RANK.rank)


@pytest.fixture
def steps(tmp_path: Path) -> RankSteps:
    return RankSteps(tmp_path, host="ha")


def test_every_record_with_a_step_gives_the_newest_step() -> None:
    records = [
        RankEpochEnded(at=0, epoch=2, step=7, step_time_p50_s=1, step_time_p95_s=1, data_wait_s=0, allreduce_s=0),
        EpochEnded(at=0, epoch=2, step=7, wall_s=1, samples_per_s=1, learning_rate=1, metrics={}),
        CheckpointSaved(at=0, epoch=2, step=7, path="x", duration_s=1),
    ]
    assert {newest_step(f"{record.model_dump_json()}\n".encode()) for record in records} == {Step(7, 2)}
    started = RankStarted(at=0, rank=0, local_rank=0, host="ha", pid=1)
    assert newest_step(f"{started.model_dump_json()}\n".encode()) is None
    assert newest_step(f"{step_line(5)}{started.model_dump_json()}\n".encode()) == Step(5, 1)


def test_the_file_is_followed_as_it_grows(steps: RankSteps, path: Path) -> None:
    assert steps.read([RANK]) == {RANK: NO_STEP}
    path.touch()
    assert steps.read([RANK]) == {RANK: NO_STEP}
    with path.open("a") as file:
        for number in range(1, 100):
            file.write(step_line(number, 1 + number // 50))
            file.flush()
            assert steps.read([RANK]) == {RANK: Step(number, 1 + number // 50)}
        file.write(step_line(100)[:-1])
        file.flush()
        assert steps.read([RANK]) == {RANK: Step(99, 2)}  # the line has no end yet
        file.write("\n")
    assert steps.read([RANK]) == {RANK: Step(100, 1)}


@pytest.mark.parametrize(
    "garbage",
    [b"\xff\xfe\x00" * 2000, b"\n" * 9000, b"{}\n[]\n", b'{"kind":"step","step":1e400}\n', b'{"kind":"step"}\n' * 500,
     step_line(5).replace('"step":5', '"step":9223372036854775808').encode(), b"x" * 9000 + b"\n"],
)  # fmt: skip
def test_garbage_does_not_change_the_newest_step(steps: RankSteps, path: Path, garbage: bytes) -> None:
    path.write_bytes(garbage)
    assert steps.read([RANK]) == {RANK: NO_STEP}
    with path.open("ab") as file:
        file.write(b"\n" + step_line(8).encode())
    assert steps.read([RANK]) == {RANK: Step(8, 1)}
    with path.open("ab") as file:
        file.write(garbage)
    assert steps.read([RANK]) == {RANK: Step(8, 1)}


def test_a_path_that_is_no_file_does_not_block(steps: RankSteps, path: Path, tmp_path: Path) -> None:
    os.mkfifo(path)
    assert steps.read([RANK]) == {RANK: NO_STEP}
    path.unlink()
    (tmp_path / "elsewhere").write_text(step_line(3))
    path.symlink_to(tmp_path / "elsewhere")
    assert steps.read([RANK]) == {RANK: NO_STEP}
    path.unlink()
    path.write_text(step_line(4))
    assert steps.read([RANK]) == {RANK: Step(4, 1)}


def test_ranks_that_left_are_forgotten(steps: RankSteps, path: Path) -> None:
    path.write_text(step_line(4))
    steps.read([RANK])
    assert steps.read([]) == {}
    path.unlink()
    assert steps.read([RANK]) == {RANK: NO_STEP}
