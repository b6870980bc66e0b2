"""At its end a run on MLflow's own server has the job's curves, after restarts, deaths and new runs too."""

import math
from datetime import timedelta
from typing import Any

import pytest

from jobs.db.engine import Sessions
from jobs.lifecycle.store import get_job
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest
from jobs.telemetry.ingest import SampleRow
from tests.integration.worker.mirror.tracked_runs import Json, TrackedRuns
from tests.integration.worker.mirror.training import (
    a_planned_attempt,
    end,
    expected_history,
    restart,
    save,
    state_of,
    train,
)
from worker.outward.mirror import Mirror as Mirroring
from worker.outward.mlflow_server import MlflowServer


def test_a_run_grows_with_its_job_and_equals_it_in_the_end(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    train(sessions, lease, first=1, last=250)
    mirror.copy()
    assert tracked_runs.history() == {}  # no checkpoint yet: a restart would start over
    assert tracked_runs.run()["info"]["status"] == "RUNNING"
    save(sessions, lease, step=200)
    mirror.copy()
    assert {key: points[-1][0] for key, points in tracked_runs.history().items()} == {
        "loss": 200, "val_loss": 200, "epoch_s": 200, "step/loss": 200, "step/samples_per_s": 200,
    }  # fmt: skip
    train(sessions, lease, first=251, last=1300)  # beyond a block
    save(sessions, lease, step=1200)
    mirror.copy()
    train(sessions, lease, first=1301, last=1350)
    end(sessions, lease)
    mirror.copy()
    history = tracked_runs.history()
    assert history == expected_history(sessions, lease.job_id)
    assert len(history["step/loss"]) == 675
    assert len(history["loss"]) == 13
    info = tracked_runs.run()["info"]
    with sessions() as session:
        job = get_job(session, lease.job_id)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert (info["status"], info["run_name"]) == ("FINISHED", job.name)
    assert [info["start_time"], info["end_time"]] == [
        round(1000 * at.timestamp()) for at in (job.started_at, job.ended_at)
    ]
    assert state_of(sessions, lease.job_id).done_at is not None


def test_void_points_of_a_restart_are_never_sent(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    train(sessions, lease, first=1, last=350)
    save(sessions, lease, step=200)
    mirror.copy()
    again = restart(sessions, lease, step=200)
    mirror.copy()
    train(sessions, again, first=201, last=420, bias=7.0)
    save(sessions, again, step=300)
    mirror.copy()
    run_id = tracked_runs.run()["info"]["run_id"]
    end(sessions, again)
    mirror.copy()
    assert tracked_runs.history() == expected_history(sessions, lease.job_id)
    assert tracked_runs.run()["info"]["run_id"] == run_id
    assert tracked_runs.history()["loss"][2][2] > 7


def test_a_restart_before_the_mirrored_checkpoint_creates_a_new_run(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    train(sessions, lease, first=1, last=350)
    save(sessions, lease, step=300)
    mirror.copy()
    old = tracked_runs.run()["info"]["run_id"]
    again = restart(sessions, lease, step=100)  # the newest checkpoint went with its host
    train(sessions, again, first=101, last=250, bias=7.0)
    save(sessions, again, step=200)
    mirror.copy()
    mirror.copy()
    assert tracked_runs.run()["info"]["run_id"] != old
    assert tracked_runs.history()["loss"][-1][0] == 200
    end(sessions, again)
    mirror.copy()
    assert tracked_runs.history() == expected_history(sessions, lease.job_id)


class Crash(Exception):
    """The worker dies here."""


class DyingServer(MlflowServer):
    """Dies after this many requests, before it sees the answer."""

    requests_left = 10**9

    def _request(self, method: str, path: str, **request: Any) -> Json:
        answer = super()._request(method, path, **request)
        self.requests_left -= 1
        if self.requests_left == 0:
            raise Crash
        return answer


def test_a_worker_that_dies_after_any_request_leaves_no_duplicate(
    mirror: Mirroring,
    tracked_runs: TrackedRuns,
    sessions: Sessions,
    configuration: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job whose run is created again, so that every kind of request is made. Each worker gets one request further."""
    lease = a_planned_attempt(sessions)
    train(sessions, lease, first=1, last=210)
    save(sessions, lease, step=200)
    mirror.copy()
    again = restart(sessions, lease, step=100)
    train(sessions, again, first=101, last=110, bias=7.0)
    end(sessions, again)
    deaths = 0
    for requests in range(1, 100):
        assert configuration.mlflow_url is not None
        server = DyingServer(configuration.mlflow_url, token=None, experiment=configuration.mlflow_experiment)
        server.requests_left = requests
        try:
            while state_of(sessions, lease.job_id).done_at is None:
                Mirroring(sessions, configuration, server).copy()
            break
        except Crash:
            deaths += 1
        finally:
            server.close()
    assert deaths == 7  # after each kind of request: a run is looked at, deleted, looked for, made, and so on
    assert tracked_runs.history() == expected_history(sessions, lease.job_id)
    assert tracked_runs.run()["info"]["status"] == "FINISHED"


def test_a_run_has_the_utilization_of_the_gpus(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    with sessions.begin() as session:
        start = get_job(session, lease.job_id).started_at
        assert start is not None
        rows = [
            SampleRow(lease.job_id, 1, rank, start + timedelta(seconds=second), "ha", slot=rank, step=None, epoch=None,
                      values={"gpu_percent": 50.0 + rank, "gpu_memory_bytes": 3_000_000, "cpu_percent": None})
            for second in range(2100) for rank in (0, 1)
        ]  # fmt: skip
        ingest.store_samples(session, rows)
    end(sessions, lease)
    mirror.copy()
    history = tracked_runs.history()
    ranks = ("gpu_0", "gpu_1")
    kinds = ("utilization_percentage", "memory_usage_megabytes")
    assert set(history) == {f"system/{rank}_{kind}" for rank in ranks for kind in kinds}
    utilization = history["system/gpu_1_utilization_percentage"]
    assert {value for _, _, value in utilization} == {51.0}
    steps = [step for step, _, _ in utilization]
    assert steps == [*range(512), *range(512, 1024, 2), *range(1024, 2048, 4), *range(2048, 2100, 8)]
    assert {value for _, _, value in history["system/gpu_0_memory_usage_megabytes"]} == {3.0}
    assert utilization[10][1] == round(1000 * (start + timedelta(seconds=10)).timestamp())


def test_values_that_are_not_finite_are_left_out(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    train(sessions, lease, first=1, last=200, bias=math.nan)
    train(sessions, lease, first=201, last=300, bias=math.inf)
    train(sessions, lease, first=301, last=400)
    end(sessions, lease)
    mirror.copy()
    history = tracked_runs.history()
    assert [step for step, _, _ in history["val_loss"]] == [400]
    assert [step for step, _, _ in history["step/loss"]] == list(range(302, 401, 2))
