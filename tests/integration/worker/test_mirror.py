"""The mirror against MLflow's own server: what that has in the end is the job's curve, whatever happened on the way."""

import math
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx2 as httpx
import pytest
from sqlalchemy import func, select, text, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Mirror
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, add_event, get_job, request_cancel, touch
from jobs.model.states import EndReason, EventKind, Status
from jobs.outward.mirroring.store import work_on
from jobs.runtime.settings import Settings
from jobs.telemetry import ingest, series
from jobs.telemetry.ingest import ALL_RANKS, MetricRow, SampleRow
from tests.integration.jobs.job_rows import a_host, a_job, a_running_attempt, an_attempt
from tests.peers import peer
from worker.outward.mirror import Mirror as Mirroring
from worker.outward.mirror import mirror_of
from worker.outward.mlflow_server import Away, MlflowServer

STEPS_AN_EPOCH = 100
EPOCHS = 20  # 2,000 steps: of those of each rank every second one is sent

Json = dict[str, Any]
History = dict[str, list[tuple[int, int, float]]]  # (step, milliseconds, value) by metric


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """MLflow's server."""
    folder = tmp_path_factory.mktemp("mlflow")
    argv = [str(peer("python")), str(Path(__file__).with_name("tracking_server.py")), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, **pipes) as process:
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        assert port, "MLflow did not start"
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def configuration(url: str) -> Settings:
    """An experiment of the test's own."""
    return Settings(mlflow_url=url, mlflow_experiment=uuid4().hex)


@pytest.fixture
def mirror(sessions: Sessions, configuration: Settings) -> Iterator[Mirroring]:
    mirror = mirror_of(sessions, configuration)
    assert mirror is not None
    yield mirror
    mirror._server.close()


@pytest.fixture
def there(configuration: Settings) -> Iterator["There"]:
    there = There(configuration)
    yield there
    there.http.close()


class There:
    """What the server has, as anybody may read it."""

    def __init__(self, configuration: Settings) -> None:
        self.http = httpx.Client(base_url=f"{configuration.mlflow_url}/api/2.0/mlflow", timeout=30)
        self._experiment = configuration.mlflow_experiment

    def ask(self, method: str, path: str, **request: Any) -> Json:
        answer = self.http.request(method, path, **request)
        assert answer.is_success, answer.text
        found: Json = answer.json()
        return found

    def runs(self) -> list[Json]:
        """All runs of the experiment that are not deleted."""
        found = self.ask("GET", "/experiments/get-by-name", params={"experiment_name": self._experiment})
        ids = [found["experiment"]["experiment_id"]]
        runs: list[Json] = self.ask("POST", "/runs/search", json={"experiment_ids": ids}).get("runs", [])
        return runs

    def run(self) -> Json:
        (run,) = self.runs()
        return run

    def history(self) -> History:
        """Every point of the one run."""
        found: History = {}
        run_id = self.run()["info"]["run_id"]
        for metric in self.run()["data"].get("metrics", []):
            query = {"run_id": run_id, "metric_key": metric["key"]}
            points = self.ask("GET", "/metrics/get-history", params=query)["metrics"]
            found[metric["key"]] = sorted((int(p["step"]), int(p["timestamp"]), float(p["value"])) for p in points)
        return found


START = datetime.now(UTC) - timedelta(seconds=100)


def a_planned_attempt(sessions: Sessions, **fields: Any) -> Lease:
    """A job that trains on two slots, of which the data is known."""
    lease = a_running_attempt(sessions, epochs=EPOCHS, **fields)
    plans(sessions, lease, step=0)
    return lease


def plans(sessions: Sessions, lease: Lease, *, step: int) -> None:
    """The ranks go on from a step."""
    with sessions.begin() as session:
        plan = {**get_job(session, lease.job_id).plan, "steps_per_epoch": STEPS_AN_EPOCH}
        touch(session, lease.job_id, plan=plan)
        leases.resumed(session, lease, step)


def trains(sessions: Sessions, lease: Lease, *, first: int, last: int, bias: float = 0.0, at_once: int = 50) -> None:
    """Steps of both ranks, and the epochs that they end."""
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
        with sessions.begin() as session:
            ingest.store_metrics(session, rows)


def saves(sessions: Sessions, lease: Lease, *, step: int) -> None:
    with sessions.begin() as session:
        add_event(session, lease.job_id, EventKind.CHECKPOINT_SAVED, attempt=lease.number, data={"step": step})


def ends(sessions: Sessions, lease: Lease, reason: EndReason = EndReason.COMPLETED) -> None:
    with sessions.begin() as session:
        leases.end(session, lease, reason)
        leases.release(session, lease.attempt_id)


def restarts(sessions: Sessions, lease: Lease, *, step: int) -> Lease:
    """The attempt's host is lost, and another one goes on from a step."""
    ends(sessions, lease, EndReason.HOST_LOST)
    with sessions.begin() as session:
        session.execute(update(Job).values(not_before=None))
    again = an_attempt(sessions, lease.job_id)
    with sessions.begin() as session:
        assert leases.claim(session, again.attempt_id, lease_s=60) == again
        leases.first_rank_started(session, again, START)
    plans(sessions, again, step=step)
    return again


def curves(sessions: Sessions, job_id: str) -> History:
    """What the mirror is to be equal to: the series as the api reads them, of rank 0 each second step."""
    found: History = {}
    with sessions() as session:
        job = get_job(session, job_id)
        by_step, by_time = (
            series.metrics(session, job, ranks=[ALL_RANKS, 0], axis=axis, max_points=10**6) for axis in ("step", "time")
        )
        zero = job.started_at.timestamp() if job.started_at else math.nan
        for steps, times in zip(by_step, by_time, strict=True):
            every, prefix = (1, "") if steps.rank == ALL_RANKS else (2, "step/")
            found[prefix + steps.name] = [
                (int(step), round(1000 * (zero + second)), value)
                for step, second, value in zip(steps.x, times.x, steps.y, strict=True)
                if step % every == 0 and value is not None
            ]
    return found


def state_of(sessions: Sessions, job_id: str) -> Mirror:
    with sessions() as session:
        return session.get_one(Mirror, job_id)


def test_a_run_grows_with_its_job_and_is_equal_to_it_in_the_end(
    mirror: Mirroring, there: There, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    trains(sessions, lease, first=1, last=250)
    mirror.copy()
    assert there.history() == {}  # no checkpoint yet: a restart would begin anew
    assert there.run()["info"]["status"] == "RUNNING"
    saves(sessions, lease, step=200)
    mirror.copy()
    assert {key: points[-1][0] for key, points in there.history().items()} == {
        "loss": 200, "val_loss": 200, "epoch_s": 200, "step/loss": 200, "step/samples_per_s": 200,
    }  # fmt: skip
    trains(sessions, lease, first=251, last=1300)  # beyond a block
    saves(sessions, lease, step=1200)
    mirror.copy()
    trains(sessions, lease, first=1301, last=1350)
    ends(sessions, lease)
    mirror.copy()
    history = there.history()
    assert history == curves(sessions, lease.job_id)
    assert len(history["step/loss"]) == 675
    assert len(history["loss"]) == 13
    info = there.run()["info"]
    with sessions() as session:
        job = get_job(session, lease.job_id)
    assert job.started_at is not None
    assert job.ended_at is not None
    assert (info["status"], info["run_name"]) == ("FINISHED", job.name)
    assert [info["start_time"], info["end_time"]] == [
        round(1000 * at.timestamp()) for at in (job.started_at, job.ended_at)
    ]
    assert state_of(sessions, lease.job_id).done_at is not None


def test_what_a_restart_made_void_never_came(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    trains(sessions, lease, first=1, last=350)
    saves(sessions, lease, step=200)
    mirror.copy()
    again = restarts(sessions, lease, step=200)
    mirror.copy()
    trains(sessions, again, first=201, last=420, bias=7.0)
    saves(sessions, again, step=300)
    mirror.copy()
    run_id = there.run()["info"]["run_id"]
    ends(sessions, again)
    mirror.copy()
    assert there.history() == curves(sessions, lease.job_id)
    assert there.run()["info"]["run_id"] == run_id
    assert there.history()["loss"][2][2] > 7


def test_a_restart_from_before_the_checkpoint_has_a_new_run(
    mirror: Mirroring, there: There, sessions: Sessions
) -> None:
    lease = a_planned_attempt(sessions)
    trains(sessions, lease, first=1, last=350)
    saves(sessions, lease, step=300)
    mirror.copy()
    old = there.run()["info"]["run_id"]
    again = restarts(sessions, lease, step=100)  # the newest checkpoint went with its host
    trains(sessions, again, first=101, last=250, bias=7.0)
    saves(sessions, again, step=200)
    mirror.copy()
    mirror.copy()
    assert there.run()["info"]["run_id"] != old
    assert there.history()["loss"][-1][0] == 200
    ends(sessions, again)
    mirror.copy()
    assert there.history() == curves(sessions, lease.job_id)


class Crash(Exception):
    """The worker dies here."""


class Mortal(MlflowServer):
    """Dies once so many requests were made, before it hears of the answer."""

    left = 10**9

    def _request(self, method: str, path: str, **request: Any) -> Json:
        answer = super()._request(method, path, **request)
        self.left -= 1
        if self.left == 0:
            raise Crash
        return answer


def test_a_worker_that_dies_anywhere_leaves_no_double(
    mirror: Mirroring, there: There, sessions: Sessions, configuration: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that has a run to be made anew, so that every kind of request is there; each worker gets one further."""
    lease = a_planned_attempt(sessions)
    trains(sessions, lease, first=1, last=210)
    saves(sessions, lease, step=200)
    mirror.copy()
    again = restarts(sessions, lease, step=100)
    trains(sessions, again, first=101, last=110, bias=7.0)
    ends(sessions, again)
    deaths = 0
    for requests in range(1, 100):
        assert configuration.mlflow_url is not None
        server = Mortal(configuration.mlflow_url, token=None, experiment=configuration.mlflow_experiment)
        server.left = requests
        try:
            while state_of(sessions, lease.job_id).done_at is None:
                Mirroring(sessions, configuration, server).copy()
            break
        except Crash:
            deaths += 1
        finally:
            server.close()
    assert deaths == 7  # after each kind of request: a run is looked at, deleted, looked for, made, and so on
    assert there.history() == curves(sessions, lease.job_id)
    assert there.run()["info"]["status"] == "FINISHED"


def test_what_a_run_says_of_its_job(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    odd = {"team": "vision", "a/../b": "x" * 63}
    lease = a_planned_attempt(sessions, name="chips", labels=odd, dataset="d" * 900)
    mirror.copy()
    ends(sessions, lease, EndReason.BAD_DATA)
    mirror.copy()
    run = there.run()
    tags = {tag["key"]: tag["value"] for tag in run["data"]["tags"]}
    params = {param["key"]: param["value"] for param in run["data"]["params"]}
    assert run["info"]["status"] == "FAILED"
    assert (tags["hora.job"], tags["hora.project"], tags["mlflow.user"]) == (lease.job_id, "default", "me")
    assert (tags["mlflow.runName"], tags["label.team"], tags["hora.end_reason"]) == ("chips", "vision", "bad_data")
    assert "hora.study" not in tags
    assert tags["label.a_.._b"] == "x" * 63
    assert (params["batch_size"], params["learning_rate"], params["early_stopping.patience"]) == ("64", "0.001", "3")
    assert (params["plan.global_batch"], params["plan.steps_per_epoch"]) == ("128", "100")
    assert params["dataset.source"] == "d" * 500


def test_a_name_and_a_label_in_any_script(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    name = "Zoë 訓練 👩\u200d🔬 it's <ok> `x` = 'y'"
    lease = a_planned_attempt(sessions, name=name, labels={"team": name})
    trains(sessions, lease, first=1, last=STEPS_AN_EPOCH)
    mirror.copy()
    tags = {tag["key"]: tag["value"] for tag in there.run()["data"]["tags"]}
    assert (there.run()["info"]["run_name"], tags["mlflow.runName"], tags["label.team"]) == (name, name, name)


def test_what_its_gpus_did(mirror: Mirroring, there: There, sessions: Sessions) -> None:
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
    ends(sessions, lease)
    mirror.copy()
    history = there.history()
    ranks = ("gpu_0", "gpu_1")
    kinds = ("utilization_percentage", "memory_usage_megabytes")
    assert set(history) == {f"system/{rank}_{kind}" for rank in ranks for kind in kinds}
    one = history["system/gpu_1_utilization_percentage"]
    assert {value for _, _, value in one} == {51.0}
    steps = [step for step, _, _ in one]
    assert steps == [*range(512), *range(512, 1024, 2), *range(1024, 2048, 4), *range(2048, 2100, 8)]
    assert {value for _, _, value in history["system/gpu_0_memory_usage_megabytes"]} == {3.0}
    assert one[10][1] == round(1000 * (start + timedelta(seconds=10)).timestamp())


def test_what_is_no_number_is_left_out(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    trains(sessions, lease, first=1, last=200, bias=math.nan)
    trains(sessions, lease, first=201, last=300, bias=math.inf)
    trains(sessions, lease, first=301, last=400)
    ends(sessions, lease)
    mirror.copy()
    history = there.history()
    assert [step for step, _, _ in history["val_loss"]] == [400]
    assert [step for step, _, _ in history["step/loss"]] == list(range(302, 401, 2))


def test_a_cancelled_job_is_a_killed_run(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    with sessions.begin() as session:
        request_cancel(session, lease.job_id)
    ends(sessions, lease, EndReason.CANCELLED)
    mirror.copy()
    assert there.run()["info"]["status"] == "KILLED"


def test_what_never_started_or_trains_nothing_has_no_run(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    a_job(sessions)
    a_running_attempt(sessions, probe={})
    mirror.copy()
    with sessions() as session:
        assert session.scalars(select(Mirror.job_id)).all() == []


def test_a_run_that_somebody_deleted_stops_no_other(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    a_host(sessions, "hb")
    lease = a_planned_attempt(sessions)
    mirror.copy()
    there.ask("POST", "/runs/delete", json={"run_id": there.run()["info"]["run_id"]})
    ends(sessions, lease)
    other = an_attempt(sessions, a_job(sessions), host="hb")
    with sessions.begin() as session:
        leases.claim(session, other.attempt_id, lease_s=60)
        leases.first_rank_started(session, other, START)
    mirror.copy()
    assert [tag["value"] for tag in there.run()["data"]["tags"] if tag["key"] == "hora.job"] == [other.job_id]
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
    assert state_of(sessions, other.job_id).done_at is None


def test_a_server_that_is_away_changes_nothing(sessions: Sessions, there: There, mirror: Mirroring) -> None:
    lease = a_planned_attempt(sessions)
    nobody = Settings(mlflow_url="http://127.0.0.1:9")
    away = mirror_of(sessions, nobody)
    assert away is not None
    with pytest.raises(Away):
        away.copy()
    away._server.close()
    mirror.copy()  # the lock was given back
    assert there.run()["info"]["status"] == "RUNNING"
    assert state_of(sessions, lease.job_id).error is None


def test_one_worker_is_at_it(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    with sessions() as another:
        locked = another.scalar(text("SELECT pg_try_advisory_lock(x'6D6972726F72'::bigint)"))
        assert locked
        mirror.copy()
        with sessions() as session:
            assert session.get(Mirror, lease.job_id) is None
        another.scalar(text("SELECT pg_advisory_unlock_all()"))
    mirror.copy()
    assert there.run()["info"]["status"] == "RUNNING"


def test_nothing_new_is_nothing_sent(mirror: Mirroring, there: There, sessions: Sessions) -> None:
    lease = a_planned_attempt(sessions)
    mirror.copy()
    before = state_of(sessions, lease.job_id)
    with sessions() as session:
        assert work_on(session, lease.job_id, sample_period_s=1.0).is_needless
    mirror.copy()
    assert state_of(sessions, lease.job_id).touched_at == before.touched_at
    assert before.state["status"] == Status.RUNNING


def test_nothing_is_mirrored_unless_it_is_asked_for(sessions: Sessions) -> None:
    assert mirror_of(sessions, Settings()) is None
