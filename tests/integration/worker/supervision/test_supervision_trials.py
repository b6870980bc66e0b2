"""A supervisor judges the trial that it runs, although no worker looks at the search."""

from datetime import UTC, datetime

from jobs.db.engine import Sessions
from jobs.db.tables import Study
from jobs.lifecycle import store
from jobs.lifecycle.store import new_id
from jobs.lifecycle.submission import StudyPlace
from jobs.model.states import EndReason
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, MetricRow
from tests.integration.jobs import job_rows
from tests.integration.worker.supervision.conftest import Run
from tests.waiting import until

SEARCH = {
    "method": "random", "trials": 2, "space": {"learning_rate": [0.1, 0.2]},
    "prune": {"name": "asha", "min_epochs": 1},
}  # fmt: skip


def a_search_with_a_trial(sessions: Sessions, *, val_accuracy: float) -> str:
    """A search of two trials. The first one has reached this value in its first epoch."""
    study_id = new_id()
    with sessions.begin() as session:
        session.add(
            Study(
                id=study_id, name="s", owner="me", base=job_rows.SPEC, grid={}, search=SEARCH, repeats=1,
                cells=[{"learning_rate": 0.1}, {"learning_rate": 0.2}],
            )
        )  # fmt: skip
    first = job_rows.a_job(sessions, study=StudyPlace(study_id, 0, 0, {}))
    point = MetricRow(first, "val_accuracy", ALL_RANKS, 1, 1, 1, datetime.now(UTC), val_accuracy)
    with sessions.begin() as session:
        ingest.store_metrics(session, [point])
        store.pause(session, first)
    return study_id


def test_a_trial_that_is_worse_than_another_ends(run: Run, sessions: Sessions) -> None:
    study_id = a_search_with_a_trial(sessions, val_accuracy=0.9)
    supervised = run("one epoch", study=StudyPlace(study_id, 1, 0, {}))
    assert supervised.wait_for_end() is EndReason.PRUNED
    assert job_rows.the_job(sessions, supervised.lease.job_id).pruned_at_epoch == 1


def test_a_better_trial_goes_on(run: Run, sessions: Sessions) -> None:
    study_id = a_search_with_a_trial(sessions, val_accuracy=0.4)
    supervised = run("one epoch", study=StudyPlace(study_id, 1, 0, {}))
    job_id = supervised.lease.job_id
    until(lambda: (job_rows.the_job(sessions, job_id).progress or {}).get("step", 0) > 30, what="steps after its epoch")
    with sessions.begin() as session:
        store.pause(session, job_id)
    assert supervised.wait_for_end() is EndReason.PAUSED
    assert job_rows.the_job(sessions, job_id).pruned_at_epoch is None


def test_a_trial_that_cannot_be_judged_goes_on(run: Run, sessions: Sessions) -> None:
    """Its search tries again."""
    study_id = a_search_with_a_trial(sessions, val_accuracy=0.9)
    supervised = run("one epoch", study=StudyPlace(study_id, 1, 0, {}))
    with sessions.begin() as session:
        session.get_one(Study, study_id).cells = []
    job_id = supervised.lease.job_id
    until(lambda: "was not judged" in supervised.paths.supervisor_log.read_text(), what="a warning")
    assert job_rows.the_job(sessions, job_id).ended_at is None
    with sessions.begin() as session:
        store.pause(session, job_id)
    assert supervised.wait_for_end() is EndReason.PAUSED
