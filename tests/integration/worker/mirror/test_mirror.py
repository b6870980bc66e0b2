"""Runs on MLflow's own server: which jobs have one, what it says, and that its curves are whole after any end."""

import math
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import func, select, text, update

from jobs.db.tables import Mirror
from jobs.lifecycle import leases
from jobs.lifecycle.store import get_job, request_cancel
from jobs.model.states import EndReason
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest
from jobs.telemetry.ingest import SampleRow
from tests.integration.jobs.job_rows import a_host, a_job, a_running_attempt, an_attempt
from tests.integration.jobs.writing import change, write
from tests.integration.worker.mirror.training import START, Json, Site
from worker.outward.mirror import Mirror as Mirroring
from worker.outward.mirror import mirror_of
from worker.outward.mlflow_server import Away, MlflowServer


def test_a_run_grows_with_its_job_and_equals_it_in_the_end(site: Site) -> None:
    lease = site.a_planned_attempt()
    site.train(lease, first=1, last=250)
    site.copy()
    assert site.history() == {}  # no checkpoint yet: a restart would start over
    assert site.run()["info"]["status"] == "RUNNING"
    site.save(lease, step=200)
    site.copy()
    assert {key: points[-1][0] for key, points in site.history().items()} == {
        "loss": 200, "val_loss": 200, "epoch_s": 200, "step/loss": 200, "step/samples_per_s": 200,
    }  # fmt: skip
    site.train(lease, first=251, last=1300)  # beyond a block
    site.save(lease, step=1200)
    site.copy()
    site.train(lease, first=1301, last=1350)
    site.end(lease)
    site.copy()
    history = site.history()
    assert history == site.expected_history(lease.job_id)
    assert len(history["step/loss"]) == 675
    assert len(history["loss"]) == 13
    info = site.run()["info"]
    with site.sessions() as session:
        job = get_job(session, lease.job_id)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert (info["status"], info["run_name"]) == ("FINISHED", job.name)
    assert [info["start_time"], info["end_time"]] == [
        round(1000 * at.timestamp()) for at in (job.started_at, job.ended_at)
    ]
    assert site.state_of(lease.job_id).done_at is not None


@pytest.mark.parametrize(
    ("saved", "resumed", "is_new"), [(200, 200, False), (300, 100, True)], ids=["from the mirrored step", "before it"]
)
def test_a_restart_sends_no_void_points_and_needs_a_new_run_only_before_the_mirrored_checkpoint(
    site: Site, saved: int, resumed: int, is_new: bool
) -> None:
    lease = site.a_planned_attempt()
    site.train(lease, first=1, last=350)
    site.save(lease, step=saved)
    site.copy()
    old = site.run()["info"]["run_id"]
    again = site.restart(lease, step=resumed)
    site.copy()
    site.train(again, first=resumed + 1, last=resumed + 220, bias=7.0)
    site.save(again, step=resumed + 100)
    for _ in range(2):
        site.copy()
    assert (site.run()["info"]["run_id"] != old) == is_new
    assert site.history()["loss"][-1][0] == resumed + 100
    site.end(again)
    site.copy()
    assert site.history() == site.expected_history(lease.job_id)
    assert site.history()["loss"][resumed // 100][2] > 7


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
    site: Site,
    configuration: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A job whose run is created again, so that every kind of request is made. Each worker gets one request further."""
    lease = site.a_planned_attempt()
    site.train(lease, first=1, last=210)
    site.save(lease, step=200)
    site.copy()
    again = site.restart(lease, step=100)
    site.train(again, first=101, last=110, bias=7.0)
    site.end(again)
    deaths = 0
    for requests in range(1, 100):
        assert configuration.mlflow_url is not None
        server = DyingServer(configuration.mlflow_url, token=None, experiment=configuration.mlflow_experiment)
        server.requests_left = requests
        try:
            while site.state_of(lease.job_id).done_at is None:
                Mirroring(site.sessions, configuration, server).copy()
            break
        except Crash:
            deaths += 1
        finally:
            server.close()
    assert deaths == 7  # after each kind of request: a run is looked at, deleted, looked for, made, and so on
    assert site.history() == site.expected_history(lease.job_id)
    assert site.run()["info"]["status"] == "FINISHED"


def test_a_run_has_the_utilization_of_the_gpus(site: Site) -> None:
    lease = site.a_planned_attempt()
    with site.sessions.begin() as session:
        start = get_job(session, lease.job_id).started_at
        assert start is not None
        rows = [
            SampleRow(lease.job_id, 1, rank, start + timedelta(seconds=second), "ha", slot=rank, step=None, epoch=None,
                      values={"gpu_percent": 50.0 + rank, "gpu_memory_bytes": 3_000_000, "cpu_percent": None})
            for second in range(2100) for rank in (0, 1)
        ]  # fmt: skip
        ingest.store_samples(session, rows)
    site.end(lease)
    site.copy()
    history = site.history()
    ranks = ("gpu_0", "gpu_1")
    kinds = ("utilization_percentage", "memory_usage_megabytes")
    assert set(history) == {f"system/{rank}_{kind}" for rank in ranks for kind in kinds}
    utilization = history["system/gpu_1_utilization_percentage"]
    assert {value for _, _, value in utilization} == {51.0}
    steps = [step for step, _, _ in utilization]
    assert steps == [*range(512), *range(512, 1024, 2), *range(1024, 2048, 4), *range(2048, 2100, 8)]
    assert {value for _, _, value in history["system/gpu_0_memory_usage_megabytes"]} == {3.0}
    assert utilization[10][1] == round(1000 * (start + timedelta(seconds=10)).timestamp())


def test_values_that_are_not_finite_are_left_out(site: Site) -> None:
    lease = site.a_planned_attempt()
    site.train(lease, first=1, last=200, bias=math.nan)
    site.train(lease, first=201, last=300, bias=math.inf)
    site.train(lease, first=301, last=400)
    site.end(lease)
    site.copy()
    history = site.history()
    assert [step for step, _, _ in history["val_loss"]] == [400]
    assert [step for step, _, _ in history["step/loss"]] == list(range(302, 401, 2))


def test_a_run_has_the_tags_and_parameters_of_its_job(site: Site) -> None:
    name = "Zoë 訓練 👩\u200d🔬 it's <ok> `x` = 'y'"
    odd = {"team": name, "a/../b": "x" * 63}
    lease = site.a_planned_attempt(name=name, labels=odd, dataset="d" * 900)
    site.copy()
    site.end(lease, EndReason.BAD_DATA)
    site.copy()
    run = site.run()
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    params = {param["key"]: param["value"] for param in run["data"]["params"]}
    assert (run["info"]["status"], run["info"]["run_name"]) == ("FAILED", name)
    assert (tags["hora.job"], tags["hora.project"], tags["mlflow.user"]) == (lease.job_id, "default", "me")
    assert (tags["mlflow.runName"], tags["label.team"], tags["hora.end_reason"]) == (name, name, "bad_data")
    assert "hora.study" not in tags
    assert tags["label.a_.._b"] == "x" * 63
    assert (params["batch_size"], params["learning_rate"], params["early_stopping.patience"]) == ("64", "0.001", "3")
    assert (params["plan.global_batch"], params["plan.steps_per_epoch"]) == ("128", "100")
    assert params["dataset.source"] == "d" * 500


def test_queued_jobs_and_probes_have_no_run(site: Site) -> None:
    a_job(site.sessions)
    a_running_attempt(site.sessions, probe={})
    site.copy()
    with site.sessions() as session:
        assert session.scalars(select(Mirror.job_id)).all() == []


def test_a_deleted_run_does_not_stop_other_runs(site: Site) -> None:
    a_host(site.sessions, "hb")
    lease = site.a_planned_attempt()
    site.copy()
    site.request("POST", "/runs/delete", json={"run_id": site.run()["info"]["run_id"]})
    site.end(lease)
    other_lease = an_attempt(site.sessions, a_job(site.sessions), host="hb")
    with site.sessions.begin() as session:
        leases.claim(session, other_lease.attempt_id, lease_s=60)
        leases.first_rank_started(session, other_lease, START)
    site.copy()
    assert [tag["value"] for tag in site.run()["data"]["tags"] if tag["key"] == "hora.job"] == [other_lease.job_id]
    refused = site.state_of(lease.job_id)
    assert refused.error is not None
    assert "active" in refused.error
    site.copy()
    assert site.state_of(lease.job_id).touched_at == refused.touched_at  # it has to wait
    for _ in range(9):
        change(site.sessions, update(Mirror).values(touched_at=func.now() - timedelta(hours=2)))
        site.copy()
    assert site.state_of(lease.job_id).done_at is not None
    assert site.state_of(other_lease.job_id).done_at is None


def test_an_unreachable_server_changes_nothing(site: Site) -> None:
    lease = site.a_planned_attempt()
    nobody = Settings(mlflow_url="http://127.0.0.1:9")
    away = mirror_of(site.sessions, nobody)
    assert away is not None
    with pytest.raises(Away):
        away.copy()
    away._server.close()
    site.copy()  # the lock was given back
    assert site.run()["info"]["status"] == "RUNNING"
    assert site.state_of(lease.job_id).error is None


def test_one_worker_at_a_time_copies(site: Site) -> None:
    lease = site.a_planned_attempt()
    write(site.sessions, request_cancel, lease.job_id)
    site.end(lease, EndReason.CANCELLED)
    with site.sessions() as another:
        locked = another.scalar(text("SELECT pg_try_advisory_lock(x'6D6972726F72'::bigint)"))
        assert locked
        site.copy()
        with site.sessions() as session:
            assert session.get(Mirror, lease.job_id) is None
        another.scalar(text("SELECT pg_advisory_unlock_all()"))
    site.copy()
    assert site.run()["info"]["status"] == "KILLED"
