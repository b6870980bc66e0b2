"""Days of the articles in small, on digits: each run's own advice leads to the next one, and a study answers.

The scripts of the others are in `test_article_scripts`, their script for Slurm in `test_exported`.
"""

import pytest

from hora.service import Service
from tests.acceptance.conftest import Json, ended

pytestmark = pytest.mark.long("releases")


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
