"""The newest step of a rank, from the end of a file that may hold anything."""

import os
from pathlib import Path

import pytest

from jobs.model.records import CheckpointSaved, EpochEnded, RankEpochEnded, RankStarted, rank_records_name
from tests.integration.worker.samples import step_line
from worker.attempt.paths import paths_of
from worker.sampling.rank_steps import NO_STEP, RankOnHost, RankSteps, Step, newest_step

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
