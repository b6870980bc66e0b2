"""What a GPU job does to be quick, on two ranks of CPUs: buckets, compression, late tallies, XLA."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jobs.model.records import EpochEnded, StepEnded, UnexplainedExit
from tests.acceptance.ranks import LIMIT_S, Run, wait_until

SPEC = {
    "dataset": {"source": "digits", "augment": ["flip_horizontal"]}, "model": "own_network:build", "gpus": 2,
    "batch_size": 64, "batch_per": "global", "learning_rate": 0.001, "epochs": 20, "early_stopping": None,
    "accumulate": 2, "schedule": "cosine", "clip_norm": 1,
}  # fmt: skip
# Its statistics, which no gradient updates, differ between the ranks. No dropout: XLA draws other random numbers.
NETWORK = """
from keras import Input, Model, layers

def build(shape, classes):
    inputs = Input(shape)
    x = layers.MaxPooling2D()(layers.Conv2D(4, 3)(inputs))  # XLA has no deterministic gradient of it
    x = layers.Dense(32)(layers.Flatten()(x))
    x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
    return Model(inputs, layers.Dense(classes)(x))
"""


def run_in(folder: Path, *, program: str = "trainer", **fields: Any) -> Run:
    return Run(folder / "job", {**SPEC, **fields}, network=NETWORK, program=program)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run with one message a step, whose tallies are read at once."""
    run = run_in(tmp_path_factory.mktemp("plain"))
    assert run.train() == 0
    return run


def test_late_tallies_and_buckets_change_no_loss_and_survive_a_stop(plain: Run, tmp_path: Path) -> None:
    fields = {"allreduce": {"bucket_mb": 0.001}}  # so each tensor has its own, but for the smallest
    run = run_in(tmp_path, program="tests.acceptance.as_on_gpus", **fields)
    with run.start() as process:
        wait_until(lambda: bool(run.of_job(EpochEnded)))
        run.stop_path.touch()
        assert process.wait(LIMIT_S) == 0
    assert [record.reason for record in run.exits()] == [UnexplainedExit.STOP_REQUESTED] * 2
    last_steps = [[record.step for record in run.records(rank) if isinstance(record, StepEnded)][-1] for rank in (0, 1)]
    assert last_steps[0] == last_steps[1] < max(plain.losses())
    run.stop_path.unlink()

    assert run.train() == 0
    assert run.losses() == pytest.approx(plain.losses(), rel=1e-6)
    assert run.epochs() == [pytest.approx(epoch, rel=1e-6) for epoch in plain.epochs()]
    steps = run.of_job(StepEnded)
    assert all(0 < step.allreduce_s < step.step_time_s for step in steps)
    assert all(0 < step.data_wait_s < step.step_time_s for step in steps)


def test_compressed_gradients_of_compiled_ranks_give_a_curve_close_by(plain: Run, tmp_path: Path) -> None:
    """The end of a run compares the weights of its ranks."""
    fields = {"allreduce": {"compression": "fp16", "bucket_mb": 0.01}, "jit": True}
    run = run_in(tmp_path, **fields)
    assert run.train() == 0
    losses, expected = (np.array(list(one.losses().values())) for one in (run, plain))
    assert losses[0] == pytest.approx(expected[0], rel=1e-5)  # nothing was averaged before it
    assert 1e-5 < np.abs(losses / expected - 1).max() < 0.05
