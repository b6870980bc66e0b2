"""A real study of digits on 1 and 2 GPUs. Its report agrees with what the service says of each job.

`tests/integration/api/studies` has repeats, targets and intervals, over stored results.
"""

from datetime import datetime

import pytest

from hora.service import Json, Service
from tests.acceptance.conftest import points

GPUS, EPOCHS = (1, 2), 3
STUDY = {
    "name": "digits-scaling",
    "base": {
        "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.003, "epochs": EPOCHS,
        "early_stopping": None, "checkpoint": {"every_epochs": EPOCHS},
    },
    "grid": {"gpus": list(GPUS)},
    "repeats": 1,
}  # fmt: skip


def leased_s(attempt: Json) -> float:
    start, end = (datetime.fromisoformat(attempt[name]) for name in ("created_at", "ended_at"))
    return (end - start).total_seconds()


def test_a_study_has_a_report_that_agrees_with_its_jobs(client: Service) -> None:
    study = client.wait_study(client.submit_study(STUDY)["id"], timeout_s=800)
    assert (study["complete"], study["counts"]["succeeded"]) == (True, 2), study["counts"]
    jobs = sorted(client.jobs(study=study["id"]), key=lambda job: job["gpus"])
    assert [(job["gpus"], job["summary"]["epochs_run"]) for job in jobs] == [(gpus, EPOCHS) for gpus in GPUS]
    curves = [points(client, job["id"], "val_accuracy") for job in jobs]
    target = min(curve[1] for curve in curves)
    report = client.report(study["id"], target=target)
    assert (report["complete"], report["baseline"]) == (True, {"gpus": 1})
    assert report["target"] == {"metric": "val_accuracy", "value": target, "chosen_by": "request"}

    walls = [job["summary"]["wall_s"] for job in jobs]
    assert report["best"]["wall_s"] == walls.index(min(walls))
    for cell, job, curve in zip(report["cells"], jobs, curves, strict=True):
        summary, attempts = job["summary"], client.attempts(job["id"])
        assert (cell["values"], cell["jobs"]) == ({"gpus": job["gpus"]}, [job["id"]])
        assert (cell["hosts"], cell["repeats"], cell["failed"], cell["unfinished"]) == (1, 1, 0, 0)
        assert cell["speedup"] == pytest.approx(walls[0] / summary["wall_s"])
        assert cell["efficiency"] == pytest.approx(walls[0] / summary["wall_s"] / job["gpus"])
        said = {"wall_s": "wall_s", "samples_per_s": "train_samples_per_s", "val_accuracy": "val_accuracy"}
        for figure, name in said.items():
            assert cell[figure]["values"] == pytest.approx([summary[name]])
        hours = sum(attempt["gpus"] * leased_s(attempt) for attempt in attempts) / 3600
        assert cell["gpu_hours"]["values"] == pytest.approx([hours], rel=1e-6)
        assert hours > job["gpus"] * summary["wall_s"] / 3600
        seconds = points(client, job["id"], "epoch_s")
        reached = min(epoch for epoch, accuracy in curve.items() if accuracy >= target)
        assert cell["time_to_target_s"]["values"] == pytest.approx([sum(seconds[n + 1] for n in range(int(reached)))])

    table = client.report(study["id"], format="csv").splitlines()
    place = table[0].split(",").index("speedup")
    assert [float(line.split(",")[place]) for line in table[1:]] == [cell["speedup"] for cell in report["cells"]]
