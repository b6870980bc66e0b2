"""The trainer under a real horovodrun: equal curves on 1 and 2 ranks, and after a stop; no rank left waiting."""

import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.records import (
    CheckpointSaved,
    EpochEnded,
    ExitReason,
    Launch,
    PhaseEnded,
    Planned,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    Summarized,
    parse_record,
    rank_log_name,
    rank_records_name,
)
from jobs.spec import spec_from

ROOT = Path(__file__).parents[2]
LIMIT_S = 120

SPEC = {
    "dataset": "digits",
    "batch_size": 64,
    "batch_per": "global",
    "learning_rate": 0.001,
    "epochs": 12,
    "early_stopping": {"patience": 12},
}


class Run:
    """A job's folder, and what its ranks wrote there."""

    def __init__(self, folder: Path, gpus: int, **fields: object) -> None:
        self.folder, self.gpus = folder, gpus
        self.stop_path = folder / "stop"
        self.launch_path = folder / "launch.json"
        folder.mkdir()
        launch = Launch(
            job_id="job",
            attempt=1,
            spec=spec_from({**SPEC, "gpus": gpus, **fields}),
            gpus=gpus,
            device="cpu",
            threads_per_rank=1,
            data_roots=[],
            cache_dir=str(folder / "cache"),
            weights_dir=str(folder / "weights"),
            records_dir=str(folder / "records"),
            logs_dir=str(folder / "logs"),
            checkpoints_dir=str(folder / "checkpoints"),
            artifacts_dir=str(folder / "artifacts"),
            stop_path=str(self.stop_path),
        )
        self.launch_path.write_text(launch.model_dump_json())

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the ranks with horovodrun."""
        return subprocess.Popen(
            [
                *(Path(sys.executable).with_name("horovodrun"), "-np", str(self.gpus), "--gloo", "--disable-cache"),
                *("--network-interfaces", "lo", "-H", f"localhost:{self.gpus}"),
                *(sys.executable, "-m", "trainer", self.launch_path),
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def train(self) -> int:
        """Run to the end; horovodrun's exit code."""
        with self.start() as process:
            return process.wait(LIMIT_S)

    def records(self, rank: int) -> list[Record]:
        """What a rank has recorded, every line of it valid."""
        path = self.folder / "records" / rank_records_name(rank)
        records = [parse_record(line) for line in path.read_bytes().splitlines()] if path.exists() else []
        assert None not in records
        return [record for record in records if record is not None]

    def exits(self) -> list[RankExited]:
        """The last record of each rank."""
        last = [self.records(rank)[-1] for rank in range(self.gpus)]
        assert all(isinstance(record, RankExited) for record in last)
        return [record for record in last if isinstance(record, RankExited)]

    def losses(self) -> dict[int, float]:
        """The loss of each step, averaged over the ranks."""
        of_step = defaultdict(list)
        for rank in range(self.gpus):
            for record in self.records(rank):
                if isinstance(record, StepEnded):
                    of_step[record.step].append(record.metrics["loss"])
        assert {len(losses) for losses in of_step.values()} == {self.gpus}  # each step once on every rank
        return {step: sum(losses) / self.gpus for step, losses in of_step.items()}

    def epochs(self) -> list[dict[str, float]]:
        """The metrics of each epoch, with their order checked."""
        ended = [record for record in self.records(0) if isinstance(record, EpochEnded)]
        assert [record.epoch for record in ended] == list(range(1, len(ended) + 1))
        return [record.metrics for record in ended]


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition, with a limit."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("two") / "job", gpus=2)
    assert run.train() == 0
    return run


def test_a_run_tells_its_story_in_order(two_ranks: Run) -> None:
    kinds = [type(record) for record in two_ranks.records(0)]
    assert kinds[0] is RankStarted
    assert kinds[-2:] == [Summarized, RankExited]
    assert kinds.count(Planned) == 1
    assert kinds.count(EpochEnded) == kinds.count(CheckpointSaved) == 12
    phases = [record.name for record in two_ranks.records(0) if isinstance(record, PhaseEnded)]
    assert phases == ["import", "connect", "data", "build", "first_step"]
    assert {type(record) for record in two_ranks.records(1)} == {RankStarted, PhaseEnded, StepEnded, RankExited}
    assert [record.reason for record in two_ranks.exits()] == [ExitReason.COMPLETED] * 2
    log = (two_ranks.folder / "logs" / rank_log_name(1)).read_text()
    assert log.startswith("rank 1 of 2 started on ")


def test_a_run_leaves_weights_and_a_summary(two_ranks: Run) -> None:
    summary = next(record.summary for record in two_ranks.records(0) if isinstance(record, Summarized))
    best = two_ranks.epochs()[summary.best_epoch - 1]
    assert (summary.val_accuracy, summary.val_loss) == (best["val_accuracy"], best["val_loss"])
    assert summary.val_accuracy is not None
    assert summary.val_accuracy >= 0.95
    assert summary.test_accuracy is not None
    assert summary.test_accuracy >= 0.9
    assert summary.epochs_run == 12
    assert sorted(os.listdir(two_ranks.folder / "artifacts")) == ["model.weights.h5"]
    assert len(os.listdir(two_ranks.folder / "checkpoints")) == 2


def test_two_ranks_converge_as_one(two_ranks: Run, tmp_path: Path) -> None:
    one_rank = Run(tmp_path / "job", gpus=1)
    assert one_rank.train() == 0
    assert one_rank.losses() == pytest.approx(two_ranks.losses(), rel=1e-4)
    for alone, together in zip(one_rank.epochs(), two_ranks.epochs(), strict=True):
        assert alone == pytest.approx(together, rel=1e-4)


def test_a_stopped_run_goes_on_as_if_it_had_not_been_stopped(two_ranks: Run, tmp_path: Path) -> None:
    run = Run(tmp_path / "job", gpus=2)
    with run.start() as process:
        wait_until(lambda: any(isinstance(record, EpochEnded) for record in run.records(0)))
        run.stop_path.touch()
        assert process.wait(LIMIT_S) == 0
    assert [record.reason for record in run.exits()] == [ExitReason.STOP_REQUESTED] * 2
    assert max(run.losses()) < max(two_ranks.losses())

    run.stop_path.unlink()
    assert run.train() == 0
    assert run.losses() == two_ranks.losses()
    assert run.epochs() == two_ranks.epochs()
    restarted = [record for record in run.records(0) if isinstance(record, Planned)][-1]
    assert restarted.start_step > 0
    weights = "artifacts/model.weights.h5"
    assert (run.folder / weights).read_bytes() == (two_ranks.folder / weights).read_bytes()


def test_bad_data_ends_every_rank_with_the_same_sentence(tmp_path: Path) -> None:
    run = Run(tmp_path / "job", gpus=2, dataset="chips")
    assert run.train() != 0
    sentence = "dataset.source: there is no dataset 'chips'; there are: digits, fashion-mnist"
    assert [(record.reason, record.message) for record in run.exits()] == [(ExitReason.BAD_DATA, sentence)] * 2
