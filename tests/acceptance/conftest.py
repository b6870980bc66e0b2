"""Fixtures and helpers for tests that run whole jobs on a whole stack."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select

from hora.service import Service
from hora.stack.control import Stack
from jobs.db.tables import Attempt, MetricBlock, MetricPoint
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.runtime.processes import mark_of
from jobs.telemetry.blocks import points_of_block
from tests.code import store_code
from tests.commands import hora_process
from tests.integration.jobs.writing import write
from tests.stack_settings import end_all_jobs
from tests.stored_runs import sessions_on
from tests.unhurried import MODEL
from tests.waiting import slowdown, until
from worker.attempt.processes import pids_of_supervisors, pids_with_mark

Json = dict[str, Any]

# Trains until it is stopped: no early stopping, and more epochs than any test waits for.
ENDLESS = {
    "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2,
    "epochs": 100_000, "early_stopping": None,
}  # fmt: skip
UNHURRIED = ENDLESS | {"model": MODEL}  # on the shared stack and on hosts of their own


@pytest.fixture(scope="module")
def client(stack: Stack) -> Iterator[Service]:
    """A client of the stack. When the module is done with it, no job is left there and all slots are free."""
    with Service(stack.url, stack.token) as client:
        yield client
        end_all_jobs(client)


def submit_script(stack: Stack, script: str, *, owner: str = "me", **fields: Any) -> str:
    """Write a job that runs this script. Returns its id."""
    with sessions_on(stack.database_url) as sessions:
        code = store_code(sessions, {"train.py": script}, owner=owner)
        spec = spec_from({"code": code, "command": ["python", "train.py"], **fields})
        return write(sessions, write_job, spec=spec, plan=resolve_plan(spec, None), owner=owner).id


def wait_for_epochs(client: Service, job_id: str, *, epochs: int, attempt: int = 1) -> Json:
    """Wait until the job has trained `epochs` epochs in `attempt` or a later one. A restarted job must have resumed."""

    def far_enough() -> Json | None:
        job = client.job(job_id)
        assert job["status"] in ("queued", "launching", "running"), job
        if job["attempt"] < attempt or (job["progress"] or {}).get("epoch", 0) <= epochs:
            return None
        return job if attempt == 1 or client.attempts(job_id)[-1]["resumed_step"] is not None else None

    return until(far_enough, what=f"epoch {epochs} of {job_id}")


def ended(client: Service, job_id: str) -> Json:
    """The job, once it has ended."""
    return client.wait(job_id, timeout_s=240)


def run_folder(stack: Stack, gpus: int, folder: Path, *words: str) -> str:
    """The id of a job that runs the code of a folder, as a person starts it."""
    started = hora_process(stack.home, "run", "-d", "--gpus", str(gpus), "--folder", str(folder), *words)
    assert started.returncode == 0, started.stderr
    return started.stdout.strip()


def kinds(client: Service, job_id: str) -> list[str]:
    """The kinds of the job's events, in order."""
    return [event["kind"] for event in client.events(job_id)]


def rank_pids(client: Service, job_id: str, attempt: int) -> dict[int, int]:
    """The process of each rank of an attempt, by rank."""
    started = [e for e in client.events(job_id) if e["kind"] == "rank_started" and e["attempt"] == attempt]
    return {event["data"]["rank"]: event["data"]["pid"] for event in started}


def supervisor_pids(client: Service, job_id: str) -> list[int]:
    """The supervisor's process of each attempt of the job."""
    return [event["data"]["pid"] for event in client.events(job_id) if event["kind"] == "launched"]


def no_process_left(client: Service, job_id: str) -> None:
    """Wait until no process of the job is left: none that carries its mark, and no supervisor of it.

    The limit is short: after their lease they would end by themselves.
    """
    within_s = 10 * slowdown()
    for attempt in client.attempts(job_id):
        mark = mark_of(job_id, attempt["number"])
        until(lambda mark=mark: not pids_with_mark(mark), within_s=within_s, what=f"the end of {mark}")
        until(lambda mark=mark: not pids_of_supervisors(mark), within_s=within_s, what=f"the supervisor of {mark}")


def points(client: Service, job_id: str, name: str, *, axis: str = "epoch", rank: int = -1) -> dict[float, float]:
    """A series of the job as {x: y}; fails if an x comes twice."""
    series = [s for s in client.metrics(job_id, name=name, axis=axis, max_points=10_000) if s["rank"] == rank]
    assert len(series) == 1, series
    xs = series[0]["x"]
    assert len(set(xs)) == len(xs), f"{name} has a point twice"
    return dict(zip(xs, series[0]["y"], strict=True))


def every_step_once(stack: Stack, job_id: str, *, steps: int) -> None:
    """Fail if the loss of a rank is missing at a step, or stored twice, in the attempt that counts for the step."""
    point, block = MetricPoint, MetricBlock
    with sessions_on(stack.database_url) as sessions, sessions() as session:
        resumed = session.execute(select(Attempt.number, Attempt.resumed_step).where(Attempt.job_id == job_id)).all()
        rows = select(point.rank, point.step, point.attempt).where(point.job_id == job_id, point.name == "loss")
        point_rows = [tuple(row) for row in session.execute(rows.where(point.rank >= 0))]
        blocks = session.scalars(select(block).where(block.job_id == job_id, block.name == "loss"))
        point_rows += [(rank, step, number) for one in blocks for _, _, rank, step, number, *_ in points_of_block(one)]

    def counts(step: int, number: int) -> bool:
        return all(after <= number or again is None or step <= again for after, again in resumed)

    stored = sorted((rank, step) for rank, step, number in point_rows if counts(step, number))
    assert stored == [(rank, step) for rank in (0, 1) for step in range(1, steps + 1)]
