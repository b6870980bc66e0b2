"""A real study of digits: 2 strategies x 1 and 2 GPUs x 2 repeats. The tests compute its report again.

They use the answers about each job (summary, attempts, metrics of its epochs) and no code of `jobs.insight.studies`.
"""

from datetime import datetime
from itertools import product
from math import sqrt
from statistics import median

import pytest

from hora.service import Json, Service
from tests.acceptance.conftest import points

STRATEGIES, GPUS, REPEATS, EPOCHS = ("horovod", "mirrored"), (1, 2), 2, 3
STUDY = {
    "name": "digits-scaling",
    "base": {
        "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.003, "epochs": EPOCHS,
        "early_stopping": None, "checkpoint": {"every_epochs": EPOCHS},
    },
    "grid": {"strategy": list(STRATEGIES), "gpus": list(GPUS)},
    "repeats": REPEATS,
}  # fmt: skip
pytestmark = pytest.mark.timeout(1800)  # eight jobs that start TensorFlow, on a busy machine one after the other
T_1 = 12.7062  # Student's t for one degree of freedom: there are two repeats


@pytest.fixture(scope="module")
def study(client: Service) -> Json:
    """The study, when all of its jobs have ended."""
    return client.wait_study(client.submit_study(STUDY)["id"], timeout_s=1700)


@pytest.fixture(scope="module")
def jobs(client: Service, study: Json) -> dict[tuple[str, int], list[Json]]:
    """The jobs of each cell, by strategy and GPUs."""
    found: dict[tuple[str, int], list[Json]] = {}
    for job in sorted(client.jobs(study=study["id"]), key=lambda job: job["study_repeat"]):
        found.setdefault((job["spec"]["strategy"], job["gpus"]), []).append(job)
    return found


@pytest.fixture(scope="module")
def target(client: Service, jobs: dict[tuple[str, int], list[Json]]) -> float:
    """A val_accuracy that about half of the jobs had after their first epoch."""
    return median(points(client, job["id"], "val_accuracy")[1] for repeats in jobs.values() for job in repeats)


@pytest.fixture(scope="module")
def report(client: Service, study: Json, target: float) -> Json:
    """Its report."""
    return client.report(study["id"], target=target)


def mean(values: list[float]) -> float:
    return sum(values) / len(values)


def leased_s(attempt: Json) -> float:
    start, end = (datetime.fromisoformat(attempt[name]) for name in ("created_at", "ended_at"))
    return (end - start).total_seconds()


def test_every_job_of_the_grid_ran(study: Json, jobs: dict[tuple[str, int], list[Json]]) -> None:
    all_jobs = len(STRATEGIES) * len(GPUS) * REPEATS
    assert (study["complete"], study["counts"]["succeeded"]) == (True, all_jobs), study["counts"]
    assert sorted(jobs) == list(product(STRATEGIES, GPUS))
    for repeats in jobs.values():
        assert [job["spec"]["seed"] for job in repeats] == [42, 43]
        assert [job["summary"]["epochs_run"] for job in repeats] == [EPOCHS] * REPEATS
        assert repeats[0]["summary"]["val_loss"] != repeats[1]["summary"]["val_loss"], "the repeats are the same run"


def test_times_speedups_and_efficiencies_agree_with_the_jobs(
    report: Json, jobs: dict[tuple[str, int], list[Json]]
) -> None:
    walls = {place: [job["summary"]["wall_s"] for job in repeats] for place, repeats in jobs.items()}
    assert (report["complete"], report["baseline"]) == (True, {"gpus": 1})
    assert [tuple(cell["values"].values()) for cell in report["cells"]] == list(product(STRATEGIES, GPUS))
    for cell in report["cells"]:
        strategy, gpus = place = (cell["values"]["strategy"], cell["values"]["gpus"])
        first, second = walls[place]
        assert cell["jobs"] == [job["id"] for job in jobs[place]]
        assert cell["wall_s"]["mean"] == pytest.approx((first + second) / 2)
        half = T_1 * abs(first - second) / sqrt(2) / sqrt(2)  # s of two values is |a - b| / sqrt(2)
        assert cell["wall_s"]["high"] - cell["wall_s"]["mean"] == pytest.approx(half, rel=1e-4)
        speedup = mean(walls[strategy, 1]) / mean(walls[place])
        assert cell["speedup"] == pytest.approx(speedup)
        assert cell["efficiency"] == pytest.approx(speedup / gpus)
        assert (cell["hosts"], cell["repeats"], cell["failed"], cell["unfinished"]) == (1, REPEATS, 0, 0)
    assert {cell["speedup"] for cell in report["cells"] if cell["gpus"] == 1} == {1.0}
    fastest = min(walls, key=lambda place: mean(walls[place]))
    assert report["best"]["wall_s"] == list(product(STRATEGIES, GPUS)).index(fastest)


def test_throughput_accuracy_and_setup_agree_with_the_jobs(
    report: Json, jobs: dict[tuple[str, int], list[Json]]
) -> None:
    said = {"samples_per_s": "train_samples_per_s", "val_accuracy": "val_accuracy", "setup_s": "setup_s"}
    for cell, repeats in zip(report["cells"], jobs_in_order(jobs), strict=True):
        for figure, name in said.items():
            assert cell[figure]["values"] == pytest.approx([job["summary"][name] for job in repeats])
        assert cell["wall_s"]["mean"] < cell["setup_s"]["mean"], "set-up is in the training time"
    for one, cell in zip(report["cells"][::2], report["cells"][1::2], strict=True):
        away = cell["val_accuracy"]["mean"] - one["val_accuracy"]["mean"]
        assert cell["accuracy_agreement"]["difference"] == pytest.approx(away)


def test_gpu_hours_are_the_leased_time_of_the_attempts(
    client: Service, report: Json, jobs: dict[tuple[str, int], list[Json]]
) -> None:
    for cell, repeats in zip(report["cells"], jobs_in_order(jobs), strict=True):
        attempts = [client.attempts(job["id"]) for job in repeats]
        hours = [sum(a["gpus"] * leased_s(a) for a in each) / 3600 for each in attempts]
        assert cell["gpu_hours"]["values"] == pytest.approx(hours, rel=1e-6)
        assert cell["gpu_hours"]["mean"] > cell["gpus"] * cell["wall_s"]["mean"] / 3600


def test_the_time_to_the_target_sums_the_epochs_until_it_was_reached(
    client: Service, report: Json, target: float, jobs: dict[tuple[str, int], list[Json]]
) -> None:
    assert report["target"] == {"metric": "val_accuracy", "value": target, "chosen_by": "request"}
    reached_in = set()
    for cell, repeats in zip(report["cells"], jobs_in_order(jobs), strict=True):
        times = []
        for job in repeats:
            accuracies, seconds = (points(client, job["id"], name) for name in ("val_accuracy", "epoch_s"))
            there = [epoch for epoch, accuracy in accuracies.items() if accuracy >= target]
            if there:
                times.append(sum(s for epoch, s in seconds.items() if epoch <= there[0]))
                reached_in.add(there[0])
        assert cell["reached_target"] == len(times)
        if len(times) == REPEATS:
            assert cell["time_to_target_s"]["values"] == pytest.approx(times)
            assert cell["gpu_hours_to_target"]["mean"] == pytest.approx(cell["gpus"] * mean(times) / 3600)
        else:
            assert cell["time_to_target_s"] is None
    assert len(reached_in) > 1, "every job was there after as many epochs: the target proves nothing"


def test_the_report_is_available_as_csv_markdown_and_png(client: Service, study: Json, report: Json) -> None:
    table = client.report(study["id"], format="csv").splitlines()
    names = table[0].split(",")
    assert [float(line.split(",")[names.index("speedup")]) for line in table[1:]] == [
        cell["speedup"] for cell in report["cells"]
    ]
    assert any("2 GPUs" in finding and "with horovod" in finding for finding in report["findings"]), report["findings"]
    assert all(
        f"| {cell['speedup']:.2f} |" in client.report(study["id"], format="markdown") for cell in report["cells"]
    )
    assert client.report(study["id"], format="png").startswith(b"\x89PNG")


def jobs_in_order(jobs: dict[tuple[str, int], list[Json]]) -> list[list[Json]]:
    """The jobs of each cell in the order of the grid."""
    return [jobs[place] for place in product(STRATEGIES, GPUS)]
