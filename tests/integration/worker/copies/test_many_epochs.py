"""A job with many epochs: few rows are read, and still an old checkpoint that the caller names is found."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, event, insert, text

from jobs.copies.resuming import NEWEST, best_first, checkpoints_among, saved_checkpoints
from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent
from jobs.lifecycle.store import get_job
from jobs.model.states import EventKind
from jobs.runtime.settings import Settings
from tests.integration.worker.copies.runs import Run
from worker.copies import rows

EPOCHS = 3_000
BEST = 7


def with_epochs(run: Run, epochs: int = EPOCHS) -> None:
    """Store epochs of 10 steps, each with a checkpoint. The value of one near the start is the highest."""
    events = [
        {"kind": kind, "data": {"epoch": epoch, "step": 10 * epoch, **data}}
        for epoch in range(1, epochs + 1)
        for kind, data in (
            (EventKind.EPOCH_ENDED, {"val_accuracy": 0.9 if epoch == BEST else epoch / 1_000_000}),
            (EventKind.CHECKPOINT_SAVED, {"duration_s": 0.1}),
        )
    ]
    with run.sessions.begin() as session:
        session.execute(insert(JobEvent).values(job_id=run.job_id, attempt=run.lease.number), events)


@pytest.fixture
def plans(engine: Engine) -> Iterator[list[dict[str, Any]]]:
    """How the database read what a test reads of events, with the numbers of rows."""
    found: list[dict[str, Any]] = []

    @event.listens_for(engine, "before_cursor_execute")
    def explain(_connection: Any, cursor: Any, statement: str, parameters: Any, *_others: Any) -> None:
        if "job_events" in statement and statement.startswith("SELECT"):
            cursor.execute(f"EXPLAIN (ANALYZE, FORMAT JSON) {statement}", parameters)
            (plan,) = cursor.fetchone()
            found.extend(_nodes((json.loads(plan) if isinstance(plan, str) else plan)[0]["Plan"]))

    yield found
    event.remove(engine, "before_cursor_execute", explain)


def _nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for inner in plan.get("Plans", ()):
        yield from _nodes(inner)


def test_few_rows_are_read_of_many_and_an_old_one_that_is_named_is_found(
    run: Run, sessions: Sessions, plans: list[dict[str, Any]]
) -> None:
    with_epochs(run)
    plans.clear()
    with sessions.begin() as session:
        session.execute(text("ANALYZE job_events"))
        saved = saved_checkpoints(session, get_job(session, run.job_id), [(1, 10 * BEST)])
    of_events = [node for node in plans if node.get("Relation Name") == "job_events"]
    read = sum(
        (node["Actual Rows"] + node.get("Rows Removed by Filter", 0)) * node["Actual Loops"] for node in of_events
    )
    assert NEWEST < read < 5 * NEWEST
    newest = [(10 * epoch, epoch, epoch / 1_000_000) for epoch in range(EPOCHS, EPOCHS - NEWEST, -1)]
    assert [(one.step, one.epoch, one.value) for one in saved] == [*newest, (10 * BEST, BEST, 0.9)]
    keys = [(1, 10 * BEST), (1, 20), (1, 21), (2, 20), (2**40, 20)]
    with sessions() as session:
        known = rows.checkpoints_of(session, run.job_id, keys)
        job = get_job(session, run.job_id)
        among = checkpoints_among(session, job, keys)
        assert rows.checkpoints_of(session, run.job_id).best({(1, 10 * BEST)}) is None
    assert known.best(set(keys)) == (1, 10 * BEST)
    assert [one.key for one in among] == [(1, 10 * BEST), (1, 20)]
    assert best_first(among, job)[0].value == 0.9


def test_steps_that_were_trained_again_do_not_count(run: Run, sessions: Sessions, other: Settings) -> None:
    with_epochs(run, 200)
    run.end()
    second = run.next(other, resumed_step=100)
    second.save(105)
    with sessions() as session:
        job = get_job(session, run.job_id)
        saved = saved_checkpoints(session, job, [(1, 1000)])
    assert [one.key for one in saved] == [(2, 105), *((1, step) for step in range(100, 0, -10))]
    assert [one.value for one in saved[:2]] == [10 / 1_000_000] * 2  # the newest epoch is that of the attempt before


def test_an_epoch_without_the_metric_leaves_the_value_of_the_one_before(run: Run, sessions: Sessions) -> None:
    run.save(10, value=0.5)
    with sessions.begin() as session:
        session.add(JobEvent(job_id=run.job_id, attempt=1, kind=EventKind.EPOCH_ENDED, data={"epoch": 20, "step": 20}))
    run.save(20)
    with sessions() as session:
        saved = saved_checkpoints(session, get_job(session, run.job_id))
    assert [(one.step, one.value) for one in saved] == [(20, 0.5), (10, 0.5)]
