"""The trainer under a real horovodrun: equal curves on 1 and 2 ranks, after a stop and after a kill; no rank left
waiting.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pytest

from jobs.records import (
    CheckpointSaved,
    EpochEnded,
    ExitReason,
    Launch,
    PhaseEnded,
    Planned,
    RankEpochEnded,
    RankExited,
    RankStarted,
    Record,
    StepEnded,
    Summarized,
    launch_file_name,
    parse_record,
    rank_log_name,
    rank_records_name,
)
from jobs.spec import spec_from
from worker.shares import horovodrun_argv, on_this_host

T = TypeVar("T", bound=Record)

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
# What makes a run hard to repeat: random numbers in the network and in the data, and statistics that no gradient moves.
RANDOM: dict[str, Any] = {
    "dataset": {"source": "digits", "augment": ["flip_horizontal"]},
    "model": "random_network:build",
    "epochs": 25,
    "early_stopping": None,
}
RANDOM_NETWORK = """
from keras import Input, Model, layers

def build(shape, classes):
    inputs = Input(shape)
    x = layers.Dense(32)(layers.Flatten()(inputs))
    x = layers.Dropout(0.2)(layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x)))
    return Model(inputs, layers.Dense(classes)(x))
"""


class Run:
    """A job's folder, and what its ranks wrote there."""

    def __init__(self, folder: Path, gpus: int, *, ranks: int | None = None, **fields: Any) -> None:
        self.folder, self.ranks = folder, ranks or gpus
        self.stop_path = folder / "stop"
        self.launch_dir = folder
        folder.mkdir()
        (folder / "random_network.py").write_text(RANDOM_NETWORK)
        self._launch = Launch(
            job_id="job",
            attempt=0,
            spec=spec_from({**SPEC, "gpus": gpus, **fields}),
            gpus=self.ranks,
            device="cpu",
            threads_per_rank=1,
            data_roots=[],
            cache_dir=str(folder / "cache"),
            weights_dir=str(folder / "weights"),
            models=["random_network:build"],
            records_dir=str(folder / "records"),
            logs_dir=str(folder / "logs"),
            checkpoints_dir=str(folder / "checkpoints"),
            artifacts_dir=str(folder / "artifacts"),
            stop_path=str(self.stop_path),
        )

    def start(self) -> "subprocess.Popen[bytes]":
        """Start the ranks of the next attempt as the service does; one rank needs no launcher."""
        self._launch = self._launch.model_copy(update={"attempt": self._launch.attempt + 1})
        (self.launch_dir / launch_file_name()).write_text(self._launch.model_dump_json())
        alone = [sys.executable, "-m", "trainer", str(self.launch_dir)]
        return subprocess.Popen(
            horovodrun_argv(on_this_host(self.ranks), launch_dir=self.launch_dir) if self.ranks > 1 else alone,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": f"{ROOT}:{self.folder}"},
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

    def of_job(self, kind: type[T]) -> list[T]:
        """The records of one kind that rank 0 has written."""
        return [record for record in self.records(0) if isinstance(record, kind)]

    def exits(self) -> list[RankExited]:
        """The last record of each rank."""
        last = [self.records(rank)[-1] for rank in range(self.ranks)]
        assert all(isinstance(record, RankExited) for record in last)
        return [record for record in last if isinstance(record, RankExited)]

    def losses(self) -> dict[int, float]:
        """The loss of each step, averaged over the ranks; of a step that was made again, the later one."""
        of_rank: list[dict[int, float]] = []
        for rank in range(self.ranks):
            steps = [record for record in self.records(rank) if isinstance(record, StepEnded)]
            of_rank.append({record.step: record.metrics["loss"] for record in steps})
            assert all(later.step == before.step + 1 or later.step <= before.step for before, later in pairwise(steps))
        assert all(losses.keys() == of_rank[0].keys() for losses in of_rank)
        return {step: sum(losses[step] for losses in of_rank) / self.ranks for step in of_rank[0]}

    def epochs(self) -> list[dict[str, float]]:
        """The metrics of each epoch, with none left out; of one that was made again, the later ones."""
        ended = {record.epoch: record.metrics for record in self.of_job(EpochEnded)}
        assert list(ended) == list(range(1, len(ended) + 1))
        return list(ended.values())

    def kill_at_some_step(self, *, rank: int) -> None:
        """SIGKILL a rank while it trains, at no step in particular, after the next checkpoint but one."""
        before = len(self.of_job(CheckpointSaved))
        with self.start() as process:
            wait_until(lambda: len(self.of_job(CheckpointSaved)) >= before + 2)
            pid = [record.pid for record in self.records(rank) if isinstance(record, RankStarted)][-1]
            os.kill(pid, signal.SIGKILL)
            assert process.wait(LIMIT_S) != 0


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
    phases = [record.name for record in two_ranks.of_job(PhaseEnded)]
    assert phases == ["import", "connect", "data", "build", "first_step"]
    assert {type(record) for record in two_ranks.records(1)} == {
        RankStarted, PhaseEnded, StepEnded, RankEpochEnded, RankExited,
    }  # fmt: skip
    assert [record.reason for record in two_ranks.exits()] == [ExitReason.COMPLETED] * 2
    log = (two_ranks.folder / "logs" / rank_log_name(1)).read_text()
    assert log.startswith("rank 1 of 2 started on ")


def test_an_epoch_tells_what_each_rank_waited_for(two_ranks: Run) -> None:
    of_rank = [[r for r in two_ranks.records(rank) if isinstance(r, RankEpochEnded)] for rank in (0, 1)]
    for ended, *ranks in zip(two_ranks.of_job(EpochEnded), *of_rank, strict=True):
        assert ended.allreduce_s == pytest.approx(sum(rank.allreduce_s for rank in ranks) / 2)
        assert ended.data_wait_s == pytest.approx(sum(rank.data_wait_s for rank in ranks) / 2)
        assert all(0 < rank.allreduce_s < ended.wall_s for rank in ranks)
        assert all(0 < rank.step_time_p50_s <= rank.step_time_p95_s < ended.wall_s for rank in ranks)
        assert ended.learning_rate == SPEC["learning_rate"]
    steps = two_ranks.of_job(StepEnded)
    assert all(0 < step.allreduce_s < step.step_time_s for step in steps)


def test_a_run_leaves_a_network_and_a_summary(two_ranks: Run) -> None:
    (summarized,) = two_ranks.of_job(Summarized)
    summary = summarized.summary
    best = two_ranks.epochs()[summary.best_epoch - 1]
    assert (summary.val_accuracy, summary.val_loss) == (best["val_accuracy"], best["val_loss"])
    assert summary.val_accuracy is not None
    assert summary.val_accuracy >= 0.95
    assert summary.test_accuracy is not None
    assert summary.test_accuracy >= 0.9
    assert summary.epochs_run == 12
    assert summary.parameters == summary.trainable_parameters == summary.model_bytes / 4
    assert (summary.after_best_share > 0) == (summary.best_epoch < 12)
    artifacts = two_ranks.folder / "artifacts"
    assert sorted(os.listdir(artifacts)) == ["classes.json", "model.keras", "model.weights.h5", "tensorboard"]
    assert json.loads((artifacts / "classes.json").read_text()) == [str(digit) for digit in range(10)]
    assert sorted(os.listdir(artifacts / "tensorboard")) == ["test", "train", "validation"]
    assert len(os.listdir(two_ranks.folder / "checkpoints/attempt-1")) == 2


def test_two_ranks_converge_as_one(two_ranks: Run, tmp_path: Path) -> None:
    one_rank = Run(tmp_path / "job", gpus=1)
    assert one_rank.train() == 0
    assert one_rank.losses() == pytest.approx(two_ranks.losses(), rel=1e-4)
    for alone, together in zip(one_rank.epochs(), two_ranks.epochs(), strict=True):
        assert alone == pytest.approx(together, rel=1e-4)


def test_fewer_ranks_go_on_from_a_checkpoint_of_more(two_ranks: Run, tmp_path: Path) -> None:
    run = Run(tmp_path / "job", gpus=2, ranks=1)
    (run.folder / "checkpoints").mkdir()
    oldest = min((two_ranks.folder / "checkpoints/attempt-1").iterdir())
    shutil.copy(oldest, run.folder / "checkpoints")
    assert run.train() == 0
    (planned,) = run.of_job(Planned)
    assert (planned.start_epoch, planned.plan.gpus, planned.plan.per_gpu_batch) == (11, 1, 64)
    last = [record.metrics for record in run.of_job(EpochEnded)]
    assert last == [pytest.approx(two_ranks.epochs()[11], rel=1e-4)]
    log = (run.folder / "logs" / rank_log_name(0)).read_text()
    assert "on 1 ranks instead of 2: the global batch was 64 and is now 64" in log


def test_a_stopped_and_a_killed_run_go_on_as_if_nothing_had_been(tmp_path: Path) -> None:
    undisturbed = Run(tmp_path / "undisturbed", gpus=2, **RANDOM)
    assert undisturbed.train() == 0

    run = Run(tmp_path / "job", gpus=2, **RANDOM)
    with run.start() as process:
        wait_until(lambda: bool(run.of_job(EpochEnded)))
        run.stop_path.touch()
        assert process.wait(LIMIT_S) == 0
    assert [record.reason for record in run.exits()] == [ExitReason.STOP_REQUESTED] * 2
    assert max(run.losses()) < max(undisturbed.losses())
    run.stop_path.unlink()

    run.kill_at_some_step(rank=1)
    exited = run.records(0)[-1]
    assert isinstance(exited, RankExited)
    assert exited.reason is ExitReason.PEER_LOST

    assert run.train() == 0
    assert run.losses() == undisturbed.losses()
    assert run.epochs() == undisturbed.epochs()
    assert os.listdir(run.folder / "checkpoints") == ["attempt-3"]
    starts = [record.start_step for record in run.of_job(Planned)]
    assert 0 == starts[0] < starts[1] < starts[2]
    weights = "artifacts/model.weights.h5"
    assert (run.folder / weights).read_bytes() == (undisturbed.folder / weights).read_bytes()


def test_one_killed_rank_goes_on_bit_for_bit_whatever_its_optimizer_keeps(tmp_path: Path) -> None:
    fields = {**RANDOM, "optimizer": "nadam", "precision": "mixed_float16"}
    fields |= {"base_batch": 32, "lr_scaling": "linear", "warmup_epochs": 10}
    undisturbed = Run(tmp_path / "undisturbed", gpus=1, **fields)
    assert undisturbed.train() == 0
    run = Run(tmp_path / "job", gpus=1, **fields)
    run.kill_at_some_step(rank=0)
    assert run.train() == 0
    assert run.losses() == undisturbed.losses()
    assert run.epochs() == undisturbed.epochs()
    assert run.of_job(Planned)[-1].start_step > 0
    rates = [record.learning_rate for record in run.of_job(EpochEnded)]
    assert 0.001 < rates[0] < rates[-1] == 0.002


def test_bad_data_ends_every_rank_with_the_same_sentence(tmp_path: Path) -> None:
    run = Run(tmp_path / "job", gpus=2, dataset="chips")
    assert run.train() != 0
    sentence = "dataset.source: 'chips' is not on this host below the data roots (HORA_DATA_ROOTS is not set)"
    assert [(record.reason, record.message) for record in run.exits()] == [(ExitReason.BAD_DATA, sentence)] * 2
