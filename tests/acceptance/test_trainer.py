"""The trainer under a real horovodrun: equal curves on 1 and 2 ranks and after a kill. No rank is left waiting.

`test_pipeline` has a run that is stopped and goes on.
"""

import json
import os
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_digits

from jobs.model import records
from jobs.model.states import EndReason
from jobs.runtime.files import bytes_below
from tests.acceptance.ranks import Run
from tests.event_files import event_points

SPEC = {
    "dataset": "digits",
    "batch_size": 64,
    "batch_per": "global",
    "learning_rate": 0.001,
    "epochs": 12,
    "early_stopping": {"patience": 12},
    "accumulate": 2,
    "schedule": {"name": "step", "epochs": [11], "factor": 0.1},
    "optimizer": {"name": "adamw", "beta_2": 0.99},
    "clip_norm": 5.0,
    "label_smoothing": 0.01,
    "class_weights": {"3": 1.5},
}
# Makes a run hard to repeat: random numbers in the network and the data, and statistics that no gradient updates.
RANDOM: dict[str, Any] = {
    "dataset": {
        "source": "digits",
        "augment": [{"name": "crop", "padding": 1}, "flip_horizontal", {"name": "mixup"}, {"name": "cutmix"}],
    },
    "model": "own_network:build",
    "epochs": 25,
    "early_stopping": None,
    "schedule": "cosine",
    "optimizer": {"name": "sgd", "nesterov": True},
    "weight_decay": 1e-4,
    "class_weights": "balanced",
}
RANDOM_NETWORK = """
from keras import Input, Model, layers

def build(shape, classes):
    inputs = Input(shape)
    x = layers.Dense(32)(layers.Flatten()(inputs))
    x = layers.Dropout(0.2)(layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x)))
    return Model(inputs, layers.Dense(classes)(x))
"""


def run_in(folder: Path, gpus: int, *, on: int | None = None, data_roots: Sequence[str] = (), **fields: Any) -> Run:
    """A run of the spec with these fields, `on` another number of GPUs."""
    spec, launch = {**SPEC, "gpus": gpus, **fields}, {"data_roots": [*data_roots]}
    return Run(folder, spec, gpus=on, network=RANDOM_NETWORK, launch=launch)


@pytest.fixture(scope="module")
def two_ranks(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = run_in(tmp_path_factory.mktemp("two") / "job", gpus=2)
    assert run.train() == 0
    return run


def test_a_run_writes_its_records_and_how_long_each_rank_waited(two_ranks: Run) -> None:
    kinds = [type(record) for record in two_ranks.records(0)]
    assert kinds[0] is records.RankStarted
    assert kinds[-2:] == [records.Summarized, records.RankExited]
    assert kinds.count(records.Planned) == 1
    assert kinds.count(records.EpochEnded) == kinds.count(records.CheckpointSaved) == 12
    phases = [record.name for record in two_ranks.of_job(records.PhaseEnded)]
    assert phases == ["import", "connect", "data", "build", "first_step"]
    assert {type(record) for record in two_ranks.records(1)} == {
        records.RankStarted, records.PhaseEnded, records.StepEnded, records.RankEpochEnded, records.RankExited,
    }  # fmt: skip
    assert [record.reason for record in two_ranks.exits()] == [EndReason.COMPLETED] * 2
    assert two_ranks.log(1).startswith("rank 1 of 2 started on ")
    of_rank = [[r for r in two_ranks.records(rank) if isinstance(r, records.RankEpochEnded)] for rank in (0, 1)]
    for ended, *ranks in zip(two_ranks.of_job(records.EpochEnded), *of_rank, strict=True):
        assert ended.allreduce_s == pytest.approx(sum(rank.allreduce_s for rank in ranks) / 2)
        assert ended.data_wait_s == pytest.approx(sum(rank.data_wait_s for rank in ranks) / 2)
        assert all(rank.allreduce_s > 0 and 0 < rank.step_time_p50_s <= rank.step_time_p95_s for rank in ranks)
        # Rank 1 also waits while rank 0 saves, which is no part of rank 0's epoch.
        assert max(ranks[0].allreduce_s, ranks[0].step_time_p95_s) < ended.wall_s
        assert ended.learning_rate == pytest.approx(1e-3 if ended.epoch <= 11 else 1e-4)
    steps = two_ranks.of_job(records.StepEnded)
    assert all(0 < step.allreduce_s < step.step_time_s for step in steps)


def test_a_run_leaves_a_network_and_a_summary(two_ranks: Run) -> None:
    (summarized,) = two_ranks.of_job(records.Summarized)
    summary = summarized.summary
    best = two_ranks.epochs()[summary.best_epoch - 1]
    assert (summary.val_accuracy, summary.val_loss) == (best["val_accuracy"], best["val_loss"])
    assert (summary.val_accuracy or 0) >= 0.95
    assert (summary.test_accuracy or 0) >= 0.9
    assert summary.epochs_run == 12
    assert summary.parameters == summary.trainable_parameters == summary.model_bytes / 4
    assert (summary.after_best_share > 0) == (summary.best_epoch < 12)
    artifacts = two_ranks.folder / "artifacts"
    assert sorted(os.listdir(artifacts)) == ["classes.json", "model.keras", "model.weights.h5", "tensorboard"]
    assert json.loads((artifacts / "classes.json").read_text()) == [str(digit) for digit in range(10)]
    assert sorted(os.listdir(artifacts / "tensorboard")) == ["steps", "test", "train", "validation"]
    assert len(os.listdir(two_ranks.folder / "checkpoints/attempt-1")) == 2


@pytest.fixture(scope="module")
def random_ranks(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Two ranks whose run is hard to repeat."""
    run = run_in(tmp_path_factory.mktemp("random") / "job", gpus=2, **RANDOM)
    assert run.train() == 0
    return run


def test_two_ranks_give_the_same_curves_as_one(two_ranks: Run, tmp_path: Path) -> None:
    one_rank = run_in(tmp_path / "job", gpus=1)
    assert one_rank.train() == 0
    assert one_rank.losses() == pytest.approx(two_ranks.losses(), rel=1e-4)
    for alone, together in zip(one_rank.epochs(), two_ranks.epochs(), strict=True):
        assert alone == pytest.approx(together, rel=1e-4)


def test_one_rank_continues_from_a_checkpoint_of_two_ranks(two_ranks: Run, tmp_path: Path) -> None:
    run = run_in(tmp_path / "job", gpus=2, on=1)
    (run.folder / "checkpoints").mkdir()
    oldest = min((two_ranks.folder / "checkpoints/attempt-1").iterdir())
    shutil.copy(oldest, run.folder / "checkpoints")
    assert run.train() == 0
    (planned,) = run.of_job(records.Planned)
    assert (planned.start_epoch, planned.plan.gpus, planned.plan.per_gpu_batch) == (11, 1, 32)
    last = [record.metrics for record in run.of_job(records.EpochEnded)]
    assert last == [pytest.approx(two_ranks.epochs()[11], rel=1e-4)]
    log = run.log(0)
    assert "on 1 GPUs or CPU slots instead of 2: the global batch was 64 and is now 64" in log


def test_a_run_resumed_after_a_kill_equals_an_undisturbed_run(random_ranks: Run, tmp_path: Path) -> None:
    undisturbed = random_ranks
    run = run_in(tmp_path / "job", gpus=2, **RANDOM)
    run.kill_at_some_step(rank=1)
    exited = run.records(0)[-1]
    assert isinstance(exited, records.RankExited)
    assert exited.reason is records.UnexplainedExit.PEER_LOST

    assert run.train() == 0
    assert run.losses() == undisturbed.losses()
    assert run.epochs() == undisturbed.epochs()
    assert os.listdir(run.folder / "checkpoints") == ["attempt-2"]
    starts = [record.start_step for record in run.of_job(records.Planned)]
    assert 0 == starts[0] < starts[1]
    for part, tag in (("train", "epoch_loss"), ("steps", "batch_loss")):
        shown, expected = (event_points(one.folder / "artifacts/tensorboard" / part, tag) for one in (run, undisturbed))
        assert shown == expected
    weights = "artifacts/model.weights.h5"
    assert (run.folder / weights).read_bytes() == (undisturbed.folder / weights).read_bytes()


def test_two_replicas_equal_two_ranks_also_after_a_kill_and_a_change_of_strategy(
    random_ranks: Run, tmp_path: Path
) -> None:
    """So their random numbers are those of the ranks, and a checkpoint is good for both."""
    run = run_in(tmp_path / "job", gpus=2, strategy="mirrored", **RANDOM)
    run.kill_at_some_step(rank=0)
    checkpoints = run.folder / "checkpoints"
    (newest,) = checkpoints.iterdir()
    ranks = run_in(tmp_path / "ranks", gpus=2, **RANDOM)
    shutil.copytree(newest, ranks.folder / "checkpoints" / "attempt-0")

    assert run.train() == 0
    assert run.losses() == pytest.approx(random_ranks.losses(), rel=1e-5)
    assert run.epochs() == [pytest.approx(epoch, rel=1e-5) for epoch in random_ranks.epochs()]
    assert {step.allreduce_s for step in run.of_job(records.StepEnded)} == {0}
    assert ranks.train() == 0
    losses = run.losses()
    assert ranks.losses() == pytest.approx({step: losses[step] for step in ranks.losses()}, rel=1e-5)


def test_a_killed_run_of_several_labels_resumes_bit_for_bit_with_nadam_in_mixed_float16(tmp_path: Path) -> None:
    fields = {**RANDOM, "epochs": 14, "optimizer": "nadam", "precision": "mixed_float16", "class_weights": None}
    digits = load_digits()
    is_so = np.stack([digits.target % 2, digits.target > 4, np.isin(digits.target, (2, 3, 5, 7))], 1)
    np.savez(tmp_path / "several.npz", x=digits.images.astype(np.uint8), y=is_so)
    fields |= {"dataset": {**RANDOM["dataset"], "source": "several.npz"}, "task": "multilabel"}
    fields |= {"base_batch": 32, "lr_scaling": "linear", "warmup_epochs": 5}
    fields |= {"schedule": {"name": "plateau", "patience": 2, "min_delta": 0.1, "factor": 0.5}}
    undisturbed = run_in(tmp_path / "undisturbed", gpus=1, data_roots=[str(tmp_path)], **fields)
    assert undisturbed.train() == 0
    run = run_in(tmp_path / "job", gpus=1, data_roots=[str(tmp_path)], **fields)
    run.kill_at_some_step(rank=0)
    assert run.train() == 0
    assert run.losses() == undisturbed.losses()
    assert run.epochs() == undisturbed.epochs()
    assert run.of_job(records.Planned)[-1].start_step > 0
    rates = [record.learning_rate for record in undisturbed.of_job(records.EpochEnded)]
    assert 0.001 < rates[0] < rates[4] < rates[5] == 0.002
    assert rates[-1] < 0.001


def test_bad_data_ends_every_rank_with_the_same_message(tmp_path: Path) -> None:
    run = run_in(tmp_path / "job", gpus=2, dataset="chips")
    assert run.train() != 0
    sentence = "dataset.source: 'chips' is not on this host below the data roots (HORA_DATA_ROOTS is not set)"
    assert [(record.reason, record.message) for record in run.exits()] == [(EndReason.BAD_DATA, sentence)] * 2


# A layer with statistics of its own, which Hora does not know and so cannot average.
NETWORK_THAT_DRIFTS = """
from keras import Input, Model, layers, ops

class RunningMean(layers.Layer):
    def build(self, shape):
        self.mean = self.add_weight(shape=(), initializer="zeros", trainable=False)

    def call(self, x):
        self.mean.assign(ops.mean(x))
        return x

def build(shape, classes):
    inputs = Input(shape)
    return Model(inputs, layers.Dense(classes)(RunningMean()(layers.Flatten()(inputs))))
"""


def test_ranks_whose_weights_differ_end_after_the_first_step(tmp_path: Path) -> None:
    spec = {**SPEC, "gpus": 2, "model": "own_network:build"}
    run = Run(tmp_path / "job", spec, network=NETWORK_THAT_DRIFTS)
    assert run.train() != 0
    for end in run.exits():
        assert end.reason is EndReason.INTERNAL_ERROR
        assert str(end.message).startswith("the digest of all weights after the first step differs between ranks: ")
    assert run.of_job(records.EpochEnded) == []


def test_a_last_update_that_overflows_is_no_success(tmp_path: Path) -> None:
    """Its loss is from before the update. No gradient is defined where this network begins."""
    network = """
from keras import Input, Model, layers, ops

def build(shape, classes):
    inputs = Input(shape)
    outputs = layers.Dense(classes, kernel_initializer="zeros")(layers.Flatten()(inputs))
    return Model(inputs, ops.sqrt(ops.abs(outputs)))
"""
    spec = {"dataset": "digits", "gpus": 1, "model": "own_network:build", "batch_size": 1024, "epochs": 1}
    run = Run(tmp_path / "job", spec, network=network)
    assert run.train() != 0
    [end] = run.exits()
    assert end.reason is EndReason.DIVERGED
    assert end.message == "weights are NaN or infinite after the last update, in step 1: try a lower learning rate"


def test_a_job_keeps_no_more_than_it_may_and_one_that_does_not_fit_never_trains(two_ranks: Run, tmp_path: Path) -> None:
    """Its network is that of the run on two ranks, so its files are as large."""
    spec = {**SPEC, "gpus": 1, "epochs": 4, "checkpoint": {"keep": 100}}
    size_bytes = (two_ranks.of_job(records.CheckpointSaved)[-1].stored_bytes or 0) // 2
    others_bytes = bytes_below(two_ranks.folder) - bytes_below(two_ranks.folder / "checkpoints")
    limited = Run(tmp_path / "limited", spec, launch={"storage_limit_bytes": others_bytes + 2 * size_bytes})
    assert limited.train() == 0
    assert [record.kept for record in limited.of_job(records.CheckpointSaved)] == [1, 2, 2, 2]
    assert "keeping " in limited.log(0)
    refused = Run(tmp_path / "refused", spec, launch={"storage_limit_bytes": size_bytes})
    assert refused.train() != 0
    (end,) = refused.exits()
    assert end.reason is EndReason.INTERNAL_ERROR
    assert "one checkpoint and the artifacts of this job have " in str(end.message)
    assert refused.of_job(records.StepEnded) == []


def test_a_rank_that_tensorflow_gives_no_gpu_ends_with_a_sentence(tmp_path: Path) -> None:
    devices = {"device": "gpu", "gpu_uuids": ["GPU-6a", "GPU-6b"]}
    run = Run(tmp_path / "job", {**SPEC, "gpus": 1}, launch=devices)
    assert run.train() == 1
    (left,) = run.exits()
    assert left.reason is EndReason.NO_DEVICE
    assert left.message == (
        f"local rank 0 on host {socket.gethostname()} has no GPU: TensorFlow sees 0 of the 2 that it was given"
        " (GPU-6a, GPU-6b). TensorFlow 2.18.1 is built for CPUs"
    )
    assert "Traceback" not in run.log(0)
