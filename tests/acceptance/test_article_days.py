"""Days of the articles in small: each run's own advice leads to the next one, and a study answers.

The scripts of the others are in `test_article_scripts`, their script for Slurm in `test_exported`.
"""

import io
import math
from pathlib import Path
from statistics import fmean

import numpy as np
import pyarrow as pa
import pytest
from PIL import Image

from hora.service import Service
from jobs.insight.advice.warnings import HALF_OF_A_DOUBLING
from tests import tables
from tests.acceptance.conftest import Json, ended
from tests.stack_settings import data_root

pytestmark = pytest.mark.long("releases")

LEAST_WALL_S = 60.0  # a shorter training gets no advice to take more slots


def advised(client: Service, job_id: str) -> dict[str, Json]:
    """The advice about a job, by rule, in its order."""
    return {item["rule"]: item for item in client.advice(job_id)}


def follow(client: Service, job_id: str, rule: str) -> str:
    """The id of the job that the advice leads to, which has succeeded."""
    clone: str = client.clone(job_id, advised(client, job_id)[rule]["change"])["id"]
    assert ended(client, clone)["status"] == "succeeded"
    return clone


def test_the_six_steps_stop_early_and_then_fill_the_device(client: Service) -> None:
    """From batch 2 and all epochs: early stopping, then a larger batch with a rate to match, by a probe."""
    spec = {"dataset": "digits", "model": "mlp", "batch_size": 2, "epochs": 20, "early_stopping": None, "gpus": 1}
    first = ended(client, client.submit(spec)["id"])
    assert list(advised(client, first["id"])) == ["early_stopping", "batch_and_rate"]
    stopped = ended(client, follow(client, first["id"], "early_stopping"))
    assert (stopped["end_reason"], stopped["summary"]["epochs_run"] < 20) == ("early_stopped", True)
    assert list(advised(client, stopped["id"])) == ["batch_and_rate"]
    assert "probe" in advised(client, stopped["id"])["batch_and_rate"]["change"]
    follow(client, stopped["id"], "batch_and_rate")
    item = advised(client, stopped["id"])["batch_and_rate"]
    assert item["evidence"]["per_gpu_batch"] == 2
    filled = ended(client, follow(client, stopped["id"], "batch_and_rate"))
    assert (filled["plan"]["per_gpu_batch"], filled["plan"]["learning_rate"]) == (16, pytest.approx(0.001 * 8**0.5))
    assert filled["summary"]["train_samples_per_s"] > 2 * stopped["summary"]["train_samples_per_s"]
    assert filled["summary"]["val_accuracy"] > stopped["summary"]["val_accuracy"] - 0.05


@pytest.fixture(scope="module")
def photographs(session_folder: Path) -> str:
    """The source of a Parquet file of 600 photographs of 4 kinds. Decoding one takes longer than learning from it."""
    noise = np.random.default_rng(0)
    levels = np.arange(600) % 4

    def photograph(level: int) -> bytes:
        pixels = noise.integers(0, 120, (400, 400, 3)) + 40 * level
        Image.fromarray(pixels.astype(np.uint8)).save(encoded := io.BytesIO(), "jpeg", quality=90)
        return encoded.getvalue()

    table = pa.table({"image": [photograph(level) for level in levels], "label": levels})
    folder = data_root(session_folder) / "photographs"
    for part, rows in (("train", table.slice(0, 500)), ("validation", table.slice(500))):
        tables.write(folder / part / "0.parquet", rows, [100])
    return str(folder)


def test_the_whole_data_streams_and_the_wait_for_it_leads_to_a_cache(client: Service, photographs: str) -> None:
    """All of the data instead of a tenth, from a Parquet file: steps wait for it until it is cached."""
    data = {"source": photographs, "image_size": [32, 32]}
    spec = {"dataset": data, "model": "mlp", "batch_size": 16, "epochs": 14, "early_stopping": None, "gpus": 1}
    tenth = ended(client, client.submit(spec | {"dataset": data | {"fraction": 0.1}})["id"])
    whole = ended(client, client.clone(tenth["id"], {"dataset": {"fraction": 1.0}})["id"])
    assert (tenth["plan"]["train_samples"], whole["plan"]["train_samples"]) == (50, 500)
    assert whole["summary"]["val_accuracy"] >= tenth["summary"]["val_accuracy"]
    assert list(advised(client, whole["id"])) == ["early_stopping", "streaming_and_cache"]
    item = advised(client, whole["id"])["streaming_and_cache"]
    assert item["change"]["dataset"]["cache"] == "memory"
    assert item["evidence"]["data_wait_share"] > 0.2
    cached = ended(client, follow(client, whole["id"], "streaming_and_cache"))
    assert "streaming_and_cache" not in advised(client, cached["id"])
    speed, slower = (job["summary"]["train_samples_per_s"] for job in (cached, whole))
    assert speed > 1.5 * slower


def test_more_slots_are_advised_by_the_speed_that_own_runs_reached(client: Service) -> None:
    """Two ranks are worth two slots on a quiet machine. On a busy one they are not, and the advice says that."""
    spec: Json = {"dataset": "digits", "model": "resnet20", "batch_size": 64, "epochs": 6, "early_stopping": None}
    two = ended(client, client.submit(spec | {"gpus": 2})["id"])
    trial = ended(client, client.submit(spec | {"gpus": 1})["id"])
    epochs = math.ceil(1.3 * LEAST_WALL_S * spec["epochs"] / trial["summary"]["wall_s"])
    one = ended(client, client.clone(trial["id"], {"epochs": epochs})["id"])
    assert one["summary"]["wall_s"] > LEAST_WALL_S
    slots = {job["id"]: advised(client, job["id"]).get("gpus") for job in (one, two)}
    more, fewer = (item and item["change"] for item in slots.values())
    trained = [job["summary"]["train_samples_per_s"] for job in (trial, one)]
    if two["summary"]["train_samples_per_s"] >= HALF_OF_A_DOUBLING * fmean(trained):
        assert (more, fewer) == ({"gpus": 2}, None)
    else:
        assert (more, fewer) == (None, {"gpus": 1})


def test_a_grid_of_slots_and_batches_says_what_decides(client: Service) -> None:
    """What the benchmarks wish for: time per epoch, speed-up by throughput, communication, repeats and next steps."""
    base = {"dataset": "digits", "model": "lenet5", "epochs": 3}
    grid = {"gpus": [1, 2], "batch_size": [16, 64]}
    study = client.submit_study({"name": "grid", "base": base, "grid": grid, "repeats": 2})["id"]
    client.wait_study(study)
    report = client.report(study)
    assert [cell["repeats"] for cell in report["cells"]] == [2] * 4
    for cell in report["cells"]:
        assert 0 < cell["epoch_s"]["mean"] <= cell["wall_s"]["mean"]
        assert cell["throughput_speedup"] > 0
        assert (cell["allreduce_share"] is not None) == (cell["gpus"] == 2)
    assert report["device"] == "cpu"
    assert 1 <= len(report["next_steps"]) <= 3
    for batch in grid["batch_size"]:  # one finding about the speed, one about the convergence
        assert len([text for text in report["findings"] if text.startswith(f"Batch {batch}: ")]) == 2
    assert not any("GPU" in text for text in report["findings"])
