"""Fixtures for whole jobs on a whole stack, and what such tests ask about one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, or_, select

from hora.client import Client
from hora.stack import Stack
from jobs.database import engine_for, sessions_for
from jobs.processes import ProcessId, mark_of
from jobs.tables import Attempt, MetricPoint
from tests.waiting import until
from worker.processes import marked

Json = dict[str, Any]

# Trains for as long as it is let: no early stopping, and more epochs than any test waits for.
ENDLESS = {
    "dataset": "digits", "model": "mlp", "batch_size": 32, "learning_rate": 0.001, "gpus": 2,
    "epochs": 100_000, "early_stopping": None,
}  # fmt: skip


@pytest.fixture(scope="module")
def breakable(session_folder: Path) -> Iterator[Stack]:
    """A stack of this module's own, for tests that kill parts of it."""
    with Stack(session_folder / "breakable", port=0, slots=2) as stack:
        yield stack


@pytest.fixture(scope="module")
def operator(breakable: Stack) -> Iterator[Client]:
    """A client of the stack that is broken."""
    with Client(breakable.url, breakable.token) as client:
        yield client


def trains(client: Client, job_id: str, *, epochs: int, within_s: float = 90) -> Json:
    """Wait until the job has trained `epochs` epochs."""

    def far_enough() -> Json | None:
        job = client.job(job_id)
        assert job["status"] in ("queued", "launching", "running"), job
        return job if (job["progress"] or {}).get("epoch", 0) > epochs else None

    return until(far_enough, within_s=within_s, what=f"epoch {epochs} of {job_id}")


def kinds(client: Client, job_id: str) -> list[str]:
    """The kinds of the job's events, in order."""
    return [event["kind"] for event in client.events(job_id)]


def rank_pids(client: Client, job_id: str, attempt: int) -> dict[int, int]:
    """The process of each rank of an attempt, by rank."""
    started = [e for e in client.events(job_id) if e["kind"] == "rank_started" and e["attempt"] == attempt]
    return {event["data"]["rank"]: event["data"]["pid"] for event in started}


def supervisor_pids(client: Client, job_id: str) -> list[int]:
    """The supervisor's process of each attempt of the job."""
    return [event["data"]["pid"] for event in client.events(job_id) if event["kind"] == "launched"]


def no_process_left(client: Client, job_id: str) -> None:
    """Wait until no process of the job is left: none that carries its mark, and no supervisor of it."""
    for attempt in client.attempts(job_id):
        mark = mark_of(job_id, attempt["number"])
        until(lambda mark=mark: not marked(mark), within_s=10, what=f"the end of {mark}")
    for pid in supervisor_pids(client, job_id):
        until(lambda pid=pid: ProcessId.of(pid) is None, within_s=10, what=f"the end of supervisor {pid}")


def points(client: Client, job_id: str, name: str, *, axis: str = "epoch", rank: int = -1) -> dict[float, float]:
    """A series of the job as {x: y}; fails where an x comes twice."""
    series = [s for s in client.metrics(job_id, name=name, axis=axis, max_points=10_000) if s["rank"] == rank]
    assert len(series) == 1, series
    xs = series[0]["x"]
    assert len(set(xs)) == len(xs), f"{name} has a point twice"
    return dict(zip(xs, series[0]["y"], strict=True))


def every_step_once(stack: Stack, job_id: str, *, steps: int) -> None:
    """Fails where the loss of a rank is missing at a step, or is there twice, in the attempt that counts for it."""
    later = func.min(Attempt.resumed_step).over(order_by=Attempt.number, rows=(1, None)).label("void_after")
    void = select(Attempt.number, later).where(Attempt.job_id == job_id).subquery()
    point = MetricPoint
    counted = (
        select(point.rank, func.count(), func.count(point.step.distinct()), func.max(point.step))
        .join(void, void.c.number == point.attempt)
        .where(point.job_id == job_id, point.name == "loss", point.rank >= 0)
        .where(or_(void.c.void_after.is_(None), point.step <= void.c.void_after))
        .group_by(point.rank)
        .order_by(point.rank)
    )
    engine = engine_for(stack.database_url)
    with sessions_for(engine)() as session:
        assert [tuple(row) for row in session.execute(counted)] == [(rank, steps, steps, steps) for rank in (0, 1)]
    engine.dispose()
