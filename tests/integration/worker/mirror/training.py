"""Jobs that train, restart and end as rows, and their runs on MLflow's server; for the tests of the mirror."""

import math
from datetime import UTC, datetime, timedelta
from typing import Any

import httpx2 as httpx
from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Mirror
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, add_event, get_job, touch
from jobs.model.states import EndReason, EventKind
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest, series
from jobs.telemetry.ingest import ALL_RANKS, MetricRow
from tests.integration.jobs.job_rows import a_running_attempt, an_attempt
from tests.integration.jobs.writing import change, write
from worker.outward.mirror import mirror_of

Json = dict[str, Any]
History = dict[str, list[tuple[int, int, float]]]  # (step, milliseconds, value) by metric
STEPS_AN_EPOCH = 100
EPOCHS = 20  # 2,000 steps; the mirror sends every second step of a rank
START = datetime.now(UTC) - timedelta(seconds=100)


class Site:
    """Jobs that train, a mirror of them, and the runs of its experiment on the server."""

    def __init__(self, sessions: Sessions, configuration: Settings) -> None:
        mirror = mirror_of(sessions, configuration)
        assert mirror is not None
        self.sessions, self.mirror = sessions, mirror
        self.http = httpx.Client(base_url=f"{configuration.mlflow_url}/api/2.0/mlflow", timeout=30)
        self._experiment = configuration.mlflow_experiment

    def request(self, method: str, path: str, **request: Any) -> Json:
        answer = self.http.request(method, path, **request)
        assert answer.is_success, answer.text
        body: Json = answer.json()
        return body

    def runs(self) -> list[Json]:
        """All runs of the experiment that are not deleted."""
        named = self.request("GET", "/experiments/get-by-name", params={"experiment_name": self._experiment})
        ids = [named["experiment"]["experiment_id"]]
        runs: list[Json] = self.request("POST", "/runs/search", json={"experiment_ids": ids}).get("runs", [])
        return runs

    def run(self) -> Json:
        (run,) = self.runs()
        return run

    def history(self) -> History:
        """All points of the only run."""
        points_by_metric: History = {}
        run_id = self.run()["info"]["run_id"]
        for metric in self.run()["data"].get("metrics", []):
            query = {"run_id": run_id, "metric_key": metric["key"]}
            points = self.request("GET", "/metrics/get-history", params=query)["metrics"]
            points_by_metric[metric["key"]] = sorted(
                (int(p["step"]), int(p["timestamp"]), float(p["value"])) for p in points
            )
        return points_by_metric

    def close(self) -> None:
        self.mirror._server.close()
        self.http.close()

    def copy(self) -> None:
        """One pass of the mirror."""
        self.mirror.copy()

    def a_planned_attempt(self, **fields: Any) -> Lease:
        """A job that trains on two slots. Its plan is known."""
        lease = a_running_attempt(self.sessions, epochs=EPOCHS, **fields)
        self.plan_from(lease, step=0)
        return lease

    def plan_from(self, lease: Lease, *, step: int) -> None:
        """Store the plan of the ranks, and the step from which they continue."""
        with self.sessions.begin() as session:
            plan = {**get_job(session, lease.job_id).plan, "steps_per_epoch": STEPS_AN_EPOCH}
            touch(session, lease.job_id, plan=plan)
            leases.resumed(session, lease, step)

    def train(self, lease: Lease, *, first: int, last: int, bias: float = 0.0, at_once: int = 50) -> None:
        """Store the steps of both ranks, and the epochs that end with them."""
        for begin in range(first, last + 1, at_once):
            rows = []
            for step in range(begin, min(begin + at_once, last + 1)):
                at, epoch = START + timedelta(milliseconds=step), (step - 1) // STEPS_AN_EPOCH + 1
                of_step = (lease.number, epoch, at)
                for rank in (0, 1):
                    rows += [
                        MetricRow(lease.job_id, name, rank, step, *of_step, value + bias + rank)
                        for name, value in (("loss", 1 / step), ("samples_per_s", 1000.0 + step))
                    ]
                if step % STEPS_AN_EPOCH == 0:
                    rows += [
                        MetricRow(lease.job_id, name, ALL_RANKS, step, *of_step, value + bias)
                        for name, value in (("loss", 2 / step), ("val_loss", 3 / step), ("epoch_s", 4.5))
                    ]
            write(self.sessions, ingest.store_metrics, rows)

    def save(self, lease: Lease, *, step: int) -> None:
        with self.sessions.begin() as session:
            add_event(session, lease.job_id, EventKind.CHECKPOINT_SAVED, attempt=lease.number, data={"step": step})

    def end(self, lease: Lease, reason: EndReason = EndReason.COMPLETED) -> None:
        with self.sessions.begin() as session:
            leases.end(session, lease, reason)
            leases.release(session, lease.attempt_id)

    def restart(self, lease: Lease, *, step: int) -> Lease:
        """End the attempt because its host is lost. Returns the next attempt, which continues from a step."""
        self.end(lease, EndReason.HOST_LOST)
        change(self.sessions, update(Job).values(not_before=None))
        again = an_attempt(self.sessions, lease.job_id)
        with self.sessions.begin() as session:
            assert leases.claim(session, again.attempt_id, lease_s=60) == again
            leases.first_rank_started(session, again, START)
        self.plan_from(again, step=step)
        return again

    def expected_history(self, job_id: str) -> History:
        """The points that a run should have: the series as the api reads them, but only every second step of rank 0."""
        points_by_metric: History = {}
        with self.sessions() as session:
            job = get_job(session, job_id)
            by_step, by_time = (
                series.metrics(session, job, ranks=[ALL_RANKS, 0], axis=axis, max_points=10**6)
                for axis in ("step", "time")
            )
            started_at_s = job.started_at.timestamp() if job.started_at else math.nan
            for steps, times in zip(by_step, by_time, strict=True):
                every, prefix = (1, "") if steps.rank == ALL_RANKS else (2, "step/")
                points_by_metric[prefix + steps.name] = [
                    (int(step), round(1000 * (started_at_s + second)), value)
                    for step, second, value in zip(steps.x, times.x, steps.y, strict=True)
                    if step % every == 0 and value is not None
                ]
        return points_by_metric

    def state_of(self, job_id: str) -> Mirror:
        with self.sessions() as session:
            return session.get_one(Mirror, job_id)
