"""The lines that an attempt without the service prints."""

from pathlib import Path

import pytest

from jobs.model.plan import resolve_plan
from jobs.model.records import (
    EpochEnded,
    Planned,
    RankExited,
    RankNote,
    RankStarted,
    Record,
    rank_note_name,
    rank_records_name,
)
from jobs.model.spec import spec_from
from worker.alone.progress import Progress
from worker.attempt.paths import AttemptPaths

PLAN = resolve_plan(spec_from({"dataset": "digits", "gpus": 2, "epochs": 3, "steps_per_epoch": 5}), None)


class Ranks:
    """The records of two ranks, and what was printed of them."""

    def __init__(self, folder: Path) -> None:
        self.paths = AttemptPaths(folder, 1)
        self.paths.create()
        self.lines: list[str] = []
        self.progress = Progress(self.paths, ranks=2, say=self.lines.append)

    def write(self, rank: int, *records: Record | str) -> None:
        with (self.paths.records / rank_records_name(rank)).open("a") as file:
            file.writelines(f"{one if isinstance(one, str) else one.model_dump_json()}\n" for one in records)


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    return Ranks(tmp_path)


def epoch(number: int) -> EpochEnded:
    metrics = {"loss": 0.41256, "val_accuracy": 0.875}
    return EpochEnded(
        at=1, epoch=number, step=5 * number, wall_s=2.14, samples_per_s=12345, learning_rate=1, metrics=metrics
    )


def test_each_epoch_of_rank_0_has_a_line(ranks: Ranks) -> None:
    ranks.write(0, RankStarted(at=1, rank=0, local_rank=0, host="n1", pid=1), Planned(at=1, plan=PLAN), epoch(1))
    ranks.write(1, RankStarted(at=1, rank=1, local_rank=0, host="n2", pid=1), Planned(at=1, plan=PLAN), epoch(1))
    assert ranks.progress.read()
    assert not ranks.progress.read()
    assert ranks.lines == [
        "begins: a global batch of 64, 5 steps an epoch, a learning rate of 0.001",
        "epoch 1 of 3: loss 0.4126, val_accuracy 0.875; 2.1 s, 12,345 samples/s",
    ]
    assert ranks.progress.started == {0, 1}
    ranks.write(0, Planned(at=1, plan=PLAN, start_epoch=1, start_step=5))  # of a later attempt
    ranks.progress.read()
    assert ranks.lines[2].startswith("goes on after step 5: ")


def test_a_rank_that_leaves_early_is_named_and_others_are_not(ranks: Ranks) -> None:
    ranks.write(0, "no record", RankExited(at=1, reason="completed"))
    ranks.write(1, RankExited(at=1, reason="bad_data", message="there is no image"))
    ranks.progress.read_rest()
    assert ranks.lines == ["rank 1 left: bad_data: there is no image"]
    assert sorted(ranks.progress.exits) == [0, 1]


def test_ranks_go_on_while_their_notes_say_so(ranks: Ranks) -> None:
    def moves(**note: object) -> bool:
        (ranks.paths.records / rank_note_name(1)).write_text(RankNote(**note).model_dump_json())  # type: ignore[arg-type]
        before = ranks.progress.moved_at
        assert not ranks.progress.read()
        return ranks.progress.moved_at > before

    assert moves(records=3, held_back_bytes=100, why="the disk is full")
    assert not moves(records=3, held_back_bytes=100, why="the disk is full")
    assert moves(records=4, held_back_bytes=200, why="the disk is full")
    assert moves(records=4, held_back_bytes=200, why="the disk is full", waited_s=1)
    assert not moves(records=4)
