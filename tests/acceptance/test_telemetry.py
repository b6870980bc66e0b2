"""The service finds the problem of jobs that are slow on purpose, and their ledgers add up.

`reports` trains all jobs once, and reads the analysis and advice of each.
"""

import os
import signal
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import numpy as np
import pytest
from PIL import Image

from hora.service import Service
from tests.acceptance.conftest import Json, rank_pids
from tests.stack_settings import data_root
from tests.waiting import slowdown, until

STALL_S, STALL_STEPS = 13.0, 30  # a stretch without a step counts as a stall from 10 s and 20 steps on
_BASE = {"learning_rate": 0.001, "early_stopping": None, "model": "mlp"}
SPECS = {
    # Images of 2.6 million pixels are decoded for a network that sees 1,024 of them.
    "input": {
        **_BASE, "dataset": {"source": "pictures", "image_size": [32, 32]}, "batch_size": 8, "gpus": 1, "epochs": 2,
        "steps_per_epoch": 30,
    },
    # The gradients of 3.6 million weights are exchanged for every two samples.
    "communication": {
        **_BASE, "dataset": {"source": "synthetic:samples=4000,classes=4,shape=96x96x3", "validation": 0.01},
        "batch_size": 2, "gpus": 2, "epochs": 2, "steps_per_epoch": 90,
    },
}  # fmt: skip


@dataclass(frozen=True)
class JobReport:
    """What the service says of one job."""

    job: Json
    analysis: Json
    advice: list[Json]
    stood_s: float  # how long one of its ranks was stopped

    @property
    def findings(self) -> dict[str, Json]:
        """The findings by kind."""
        return {finding["kind"]: finding for finding in self.analysis["findings"]}

    @property
    def shares(self) -> Json:
        """The shares of time in the steps of all ranks together."""
        return next(shares for shares in self.analysis["steps"] if shares["rank"] == -1)


def _make_data(root: Path) -> None:
    random = np.random.default_rng(0)
    for label in (0, 1):
        folder = root / "pictures" / str(label)
        folder.mkdir(parents=True)
        pixels = random.integers(0, 256 >> label, (2400, 2400, 3), np.uint8)
        Image.fromarray(pixels[:1600, :1600]).save(folder / "0.jpg", quality=80)
        for number in range(1, 30):
            os.link(folder / "0.jpg", folder / f"{number}.jpg")


@pytest.fixture(scope="module")
def reports(client: Service, session_folder: Path) -> Mapping[str, JobReport]:
    """Train all jobs. No other one runs beside the communication-bound one."""
    _make_data(data_root(session_folder))
    ids = {name: client.submit(SPECS[name])["id"] for name in ("input", "communication")}
    until(lambda: _step(client, ids["communication"]) >= 100, what="a hundred steps")
    stood_s = max(STALL_S, STALL_STEPS * _step_time_s(client, ids["communication"]))
    stopped_pid = rank_pids(client, ids["communication"], 1)[1]
    os.kill(stopped_pid, signal.SIGSTOP)
    stopped_at = time.monotonic()
    try:
        until(lambda: time.monotonic() > stopped_at + stood_s)
        until(lambda: _sampled_standing(client, ids["communication"]), what="ten samples of one step")
    finally:
        os.kill(stopped_pid, signal.SIGCONT)
    stood_s_by_name = {"communication": time.monotonic() - stopped_at}
    jobs = {name: client.wait(job_id, timeout_s=240) for name, job_id in ids.items()}
    return {
        name: JobReport(job, client.analysis(job["id"]), client.advice(job["id"]), stood_s_by_name.get(name, 0.0))
        for name, job in jobs.items()
    }


def _step(client: Service, job_id: str) -> int:
    return (client.job(job_id)["progress"] or {}).get("step") or 0


def _step_time_s(client: Service, job_id: str) -> float:
    """The mean time of a step so far."""
    return next(shares["step_time_s"] for shares in client.analysis(job_id)["steps"] if shares["rank"] == -1)


def _sampled_standing(client: Service, job_id: str) -> bool:
    """Whether at least ten samples of each rank are of the same step."""
    series = _by_rank(client, job_id, "time").values()
    return len(series) == 2 and all(_longest_step(one)[1] >= 10 for one in series)


def _longest_step(series: Json) -> tuple[int, int]:
    """The step with the most samples, and their number; samples before the first step are left out."""
    ((step, count),) = Counter(step for step in series["step"] if step is not None).most_common(1) or [(0, 0)]
    return step, count


def test_slow_image_decoding_is_reported_as_input_bound(reports: Mapping[str, JobReport]) -> None:
    report = reports["input"]
    assert list(report.findings) == ["input_bound"]
    share = report.findings["input_bound"]["evidence"]["data_wait_share"]
    assert share == pytest.approx(report.shares["data_wait"], abs=0.01)
    assert share > 0.5
    assert f"Steps spend {100 * share:.0f} % of their time" in report.findings["input_bound"]["text"]
    (cached,) = [item for item in report.advice if item["rule"] == "streaming_and_cache"]
    assert cached["change"] == {"dataset": {"cache": "memory"}}
    assert "batch_and_rate" not in {item["rule"] for item in report.advice}


def test_a_wide_network_with_a_small_batch_is_reported_as_communication_bound(reports: Mapping[str, JobReport]) -> None:
    report = reports["communication"]
    assert set(report.findings) == {"communication_bound", "stalled"}
    evidence = report.findings["communication_bound"]["evidence"]
    assert evidence["basis"] == "measured"
    assert evidence["communication_share"] > 0.4
    assert report.shares["allreduce"] > report.shares["compute"]
    (larger,) = [item for item in report.advice if item["rule"] == "batch_and_rate"]
    assert larger["change"]["batch_size"] > SPECS["communication"]["batch_size"]
    assert larger["evidence"]["communication_share"] == pytest.approx(evidence["communication_share"], abs=0.001)
    assert larger["gain"]["time_factor"] < 0.7


def test_a_stopped_rank_is_reported_as_a_stall_of_the_same_length(
    client: Service, reports: Mapping[str, JobReport]
) -> None:
    report = reports["communication"]
    assert len(report.analysis["stalls"]) == 1, report.analysis["stalls"]
    (stall,) = report.analysis["stalls"]
    assert report.stood_s - 2 < stall["length_s"] < report.stood_s + 10
    assert stall["after_step"] >= 100
    assert not stall["ongoing"]
    assert report.findings["stalled"]["evidence"]["longest_s"] == pytest.approx(stall["length_s"], rel=0.01)
    assert f"The job stood still for {stall['length_s']:.1f} s" in report.findings["stalled"]["text"]
    assert report.analysis["ledger"]["items"]["stalled"] == pytest.approx(2 * stall["length_s"], rel=0.01)
    # The samples, one a second, show the same stall: at least ten are of the last step that the rank wrote.
    for series in _by_rank(client, report.job["id"], "time").values():
        step, count = _longest_step(series)
        assert count >= 10
        assert step <= stall["after_step"] + 1


def test_every_job_succeeds_and_its_ledger_adds_up_to_the_leased_time(
    client: Service, reports: Mapping[str, JobReport]
) -> None:
    for report in reports.values():
        job, items = report.job, report.analysis["ledger"]["items"]
        assert (job["status"], job["attempt"], report.analysis["complete"]) == ("succeeded", 1, True)
        (attempt,) = client.attempts(job["id"])
        began, over = (datetime.fromisoformat(attempt[name]) for name in ("created_at", "ended_at"))
        assert sum(items.values()) == pytest.approx(attempt["gpus"] * (over - began).total_seconds(), rel=0.01)
        assert min(items.values()) >= 0
        trained_s = sum(items[item] for item in ("useful", "data_wait", "communication", "after_best", "stalled"))
        assert trained_s == pytest.approx(job["gpus"] * job["summary"]["wall_s"], rel=0.2)
        assert items["set_up"] > items["launch"] > 0


def test_the_samples_of_every_rank_have_their_step(client: Service, reports: Mapping[str, JobReport]) -> None:
    job = reports["communication"].job
    by_time, by_step = (_by_rank(client, job["id"], axis) for axis in ("time", "step"))
    memory = _by_rank(client, job["id"], "time", metric="memory_bytes")
    assert sorted(by_time) == [0, 1]
    for rank, series in by_time.items():
        pauses_s = [after - before for before, after in pairwise(series["x"])]
        assert min(pauses_s) > 0
        assert 0.5 < median(pauses_s) < 3  # one a second; a busy machine may be late with some
        assert max(pauses_s) < 5 * slowdown(), "the sampling had a hole"
        assert max(y for y in series["y"] if y is not None) > 10
        assert max(y for y in memory[rank]["y"] if y is not None) > 100e6  # TensorFlow alone needs that much
        known = [step for step in series["step"] if step is not None]
        assert known == sorted(known)
        assert len(set(known)) > 3
        assert known[-1] <= job["progress"]["step"]
        since_first = [(step, y) for step, y in zip(series["step"], series["y"], strict=True) if step is not None]
        assert since_first == list(zip(by_step[rank]["x"], by_step[rank]["y"], strict=True))


def _by_rank(client: Service, job_id: str, axis: str, *, metric: str = "cpu_percent") -> dict[int, Json]:
    """The samples of each rank."""
    found = client.utilization(job_id, metric=metric, axis=axis)["series"]
    return {series["rank"]: series for series in found}
