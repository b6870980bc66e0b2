"""Runs on MLflow's own server: which jobs have one, what it says of the job, and when nothing is copied."""

from datetime import timedelta

import pytest
from sqlalchemy import func, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Mirror
from jobs.lifecycle import leases
from jobs.lifecycle.store import request_cancel
from jobs.model.states import EndReason, Status
from jobs.outward.mirroring.store import work_on
from jobs.runtime.settings import Settings
from tests.integration.jobs.job_rows import a_host, a_job, a_running_attempt, an_attempt
from tests.integration.worker.mirror.tracked_runs import TrackedRuns
from tests.integration.worker.mirror.training import START, a_planned_attempt, end, state_of
from worker.outward.mirror import Mirror as Mirroring
from worker.outward.mirror import mirror_of
from worker.outward.mlflow_server import Away


def test_a_run_has_the_tags_and_parameters_of_its_job(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    name = "Zoë 訓練 👩\u200d🔬 it's <ok> `x` = 'y'"
    odd = {"team": name, "a/../b": "x" * 63}
    lease = a_planned_attempt(sessions, name=name, labels=odd, dataset="d" * 900)
    mirror.copy()
    end(sessions, lease, EndReason.BAD_DATA)
    mirror.copy()
    run = tracked_runs.run()
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


def test_queued_jobs_and_probes_have_no_run(mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions) -> None:
    a_job(sessions)
    a_running_attempt(sessions, probe={})
    mirror.copy()
    with sessions() as session:
        assert session.scalars(select(Mirror.job_id)).all() == []


def test_a_deleted_run_does_not_stop_other_runs(
    mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions
) -> None:
    a_host(sessions, "hb")
    lease = a_planned_attempt(sessions)
    mirror.copy()
    tracked_runs.request("POST", "/runs/delete", json={"run_id": tracked_runs.run()["info"]["run_id"]})
    end(sessions, lease)
    other_lease = an_attempt(sessions, a_job(sessions), host="hb")
    with sessions.begin() as session:
        leases.claim(session, other_lease.attempt_id, lease_s=60)
        leases.first_rank_started(session, other_lease, START)
    mirror.copy()
    assert [tag["value"] for tag in tracked_runs.run()["data"]["tags"] if tag["key"] == "hora.job"] == [
        other_lease.job_id
    ]
    refused = state_of(sessions, lease.job_id)
    assert refused.error is not None
    assert "active" in refused.error
    mirror.copy()
    assert state_of(sessions, lease.job_id).touched_at == refused.touched_at  # it has to wait
    for _ in range(9):
        with sessions.begin() as session:
            session.execute(update(Mirror).values(touched_at=func.now() - timedelta(hours=2)))
        mirror.copy()
    assert state_of(sessions, lease.job_id).done_at is not None
    assert state_of(sessions, other_lease.job_id).done_at is None


def test_an_unreachable_server_changes_nothing(
    sessions: Sessions, tracked_runs: TrackedRuns, mirror: Mirroring
) -> None:
    lease = a_planned_attempt(sessions)
    nobody = Settings(mlflow_url="http://127.0.0.1:9")
    away = mirror_of(sessions, nobody)
    assert away is not None
    with pytest.raises(Away):
        away.copy()
    away._server.close()
    mirror.copy()  # the lock was given back
    assert tracked_runs.run()["info"]["status"] == "RUNNING"
    assert state_of(sessions, lease.job_id).error is None


def test_one_worker_at_a_time_copies(mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    with sessions.begin() as session:
        request_cancel(session, lease.job_id)
    end(sessions, lease, EndReason.CANCELLED)
    with sessions() as another:
        locked = another.scalar(text("SELECT pg_try_advisory_lock(x'6D6972726F72'::bigint)"))
        assert locked
        mirror.copy()
        with sessions() as session:
            assert session.get(Mirror, lease.job_id) is None
        another.scalar(text("SELECT pg_advisory_unlock_all()"))
    mirror.copy()
    assert tracked_runs.run()["info"]["status"] == "KILLED"


def test_an_unchanged_job_is_not_copied_again(mirror: Mirroring, tracked_runs: TrackedRuns, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    mirror.copy()
    before = state_of(sessions, lease.job_id)
    with sessions() as session:
        assert work_on(session, lease.job_id, sample_period_s=1.0).is_needless
    mirror.copy()
    assert state_of(sessions, lease.job_id).touched_at == before.touched_at
    assert before.state["status"] == Status.RUNNING
