"""A batch probe on two ranks: run from the command line, and with one rank that runs out of memory."""

import json
from pathlib import Path

import pytest

from hora.service import Json, Service
from hora.stack.control import Stack
from jobs.model.records import DataOpened, Planned, ProbeEnded, ProbeMeasured, ProbeStepped
from jobs.model.states import EndReason
from tests.acceptance.conftest import kinds, no_process_left
from tests.acceptance.ranks import Run
from tests.commands import hora
from tests.waiting import slowdown

# Batches of more than 32 take a petabyte, on rank 1 alone.
HUNGRY_NETWORK = """
import os

import keras
import tensorflow as tf


class Hungry(keras.layers.Layer):
    def call(self, x):
        rows = tf.where(tf.shape(x)[0] > 32, tf.constant(2**48, tf.int64), 1)
        return x + tf.reduce_max(tf.tile(tf.reshape(x, [-1])[:1], [rows]))


def build(shape, classes):
    inputs = keras.Input(shape)
    x = keras.layers.Flatten()(inputs)
    x = Hungry()(x) if os.environ["HOROVOD_RANK"] == "1" else x
    return keras.Model(inputs, keras.layers.Dense(classes)(x))
"""


@pytest.fixture(scope="module")
def probe(stack: Stack) -> Json:
    """Digits, probed until its 1,350 training samples are fewer than a batch of both ranks."""
    longest_step_s = 0.5 * slowdown()  # a longer one ends the probe
    limits = ("--set", "probe.smallest=100", "--set", f"probe.seconds={longest_step_s}")
    done = hora(stack.home, "probe", "--dataset", "digits", "--gpus", "2", *limits, "--json")
    assert done.returncode == 0, done.stderr
    *before, job = [json.loads(line) for line in done.stdout.splitlines()]  # a line for each change, last the end
    points = job["probe"]["points"]
    for seen in before:  # points are added one by one and stay
        so_far = (seen["probe"] or {"points": []})["points"]
        assert so_far == points[: len(so_far)]
    assert any(seen["progress"].get("per_gpu_batch") for seen in before)
    assert before[0]["status"] != job["status"]
    return dict(job)


def test_a_probe_proposes_a_batch_and_stores_no_metrics_or_checkpoints(client: Service, probe: Json) -> None:
    assert (probe["status"], probe["end_reason"], probe["summary"]) == ("succeeded", "completed", None)
    assert (probe["progress"]["step"], probe["progress"]["steps"]) == (3, 6)
    findings = probe["probe"]
    assert [(point["per_gpu_batch"], point["fits"]) for point in findings["points"]] == [(100, 1), (200, 1), (400, 1)]
    assert (findings["ended_by"], findings["largest_batch"]) == ("data", 400)
    for point in findings["points"]:
        assert 0 < point["allreduce_s"] < point["step_time_s"]
        assert point["samples_per_s"] == pytest.approx(2 * point["per_gpu_batch"] / point["step_time_s"])
        assert point["memory_bytes"] > 100e6
    # The smallest, as an epoch has fewer than 10 steps; the rate is scaled from a batch of 32.
    proposal = {"batch_size": 100, "learning_rate": 0.00177}
    assert findings.items() >= proposal.items()
    assert client.dry_run_clone(probe["id"], {"probe": None, **proposal})["plan"]["steps_per_epoch"] == 6
    assert kinds(client, probe["id"]).count("first_step") == 1
    assert "checkpoint_saved" not in kinds(client, probe["id"])
    assert client.metrics(probe["id"]) == []
    no_process_left(client, probe["id"])


def test_a_probe_ends_on_all_ranks_when_one_runs_out_of_memory(tmp_path: Path) -> None:
    limits = {"smallest": 16, "seconds": 0.5 * slowdown()}
    spec = {"dataset": "digits", "gpus": 2, "model": "own_network:build", "probe": limits}
    # With oneDNN's allocator TensorFlow waits 10 s for free memory.
    environment = {"TF_ENABLE_ONEDNN_OPTS": "0"}
    run = Run(tmp_path / "job", spec, network=HUNGRY_NETWORK, environment=environment)
    assert run.train() == 0
    assert [record.reason for record in run.exits()] == [EndReason.COMPLETED] * 2
    (ended,) = run.of_job(ProbeEnded)
    found = ended.findings
    assert [(point.per_gpu_batch, point.fits) for point in found.points] == [(16, True), (32, True), (64, False)]
    assert (found.ended_by, found.largest_batch) == ("memory", 32)
    assert [record.point for record in run.of_job(ProbeMeasured)] == found.points
    assert {type(record) for record in run.records(0)} >= {DataOpened, Planned, ProbeStepped}
    assert "out of memory: " in run.log(1)
    assert "out of memory: " not in run.log(0)
    assert not (run.folder / "checkpoints").exists()
    assert not (run.folder / "artifacts").exists()
