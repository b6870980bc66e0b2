"""Searches over HTTP, and their trials from the first to the last."""

import csv
import io
import math
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Project, RunTime, Study, User
from jobs.insight.studies.searching import NO_CHOICE, Memory
from jobs.lifecycle import leases
from jobs.model.states import EndReason, Status
from jobs.outward.webhooks import outbox
from tests.integration.api.answers import created, wrong_fields
from tests.integration.api.studies.search_jobs import BASE, SEARCH, SPACE, Lab, accuracy
from tests.integration.api.studies.study_jobs import Json
from tests.integration.jobs.job_rows import count


@pytest.fixture
def lab(sessions: Sessions) -> Lab:
    return Lab(sessions)


@pytest.fixture
def submit(api: TestClient) -> Callable[..., Json]:
    """Submits a search, with changes. Returns the created study."""

    def submit(base: Json = BASE, **changes: Any) -> Json:
        return created(api, "/v1/studies", {"name": "rates", "base": base, "search": SEARCH | changes})

    return submit


def test_a_dry_run_shows_the_space_and_checks_its_ends(api: TestClient, sessions: Sessions) -> None:
    document = {"base": BASE, "search": SEARCH}
    preview = api.post("/v1/studies?dry_run=true", json=document).json()
    assert (preview["jobs"], preview["varied"]) == (12, list(SPACE))
    assert preview["search"]["space"] == SPACE
    assert [cell["values"]["learning_rate"] for cell in preview["cells"]] == [1e-4, 0.1, 1e-4]
    assert count(sessions, Study) == 0

    too_large = {"batch_size": {"int": [32, 1_000_000]}}
    answer = api.post("/v1/studies", json={"base": BASE, "search": SEARCH | {"space": too_large}})
    assert wrong_fields(answer) == ["search.space.batch_size.int[1]"]
    for wrong in ({"space": {}}, {"method": "bayes"}):
        answer = api.post("/v1/studies", json={"base": BASE, "search": SEARCH | wrong})
        assert wrong_fields(answer) == [f"search.{field}" for field in wrong]


def test_a_search_begins_its_trials_one_after_the_other_and_ends(
    api: TestClient, lab: Lab, submit: Callable[..., Json]
) -> None:
    study = submit()
    path = f"/v1/studies/{study['id']}"
    assert (study["jobs"], study["complete"], study["cells"], study["search"]["parallel"]) == (12, False, [], 1)
    assert lab.search() == 1
    assert lab.search() == 0, "one at once"
    lab.train(study["id"])

    report = api.get(f"{path}/report").json()
    assert api.get(path).json()["complete"]
    trials = report["trials"]
    assert [trial["number"] for trial in trials] == list(range(12))
    assert {trial["status"] for trial in trials} == {"succeeded"}
    pruned = [trial for trial in trials if trial["end_reason"] == "pruned"]
    assert 4 <= len(pruned) <= 10
    assert {trial["pruned_at_epoch"] for trial in pruned} <= {2, 6}
    assert all(trial["epochs"] == trial["pruned_at_epoch"] for trial in pruned)
    best = report["best"]["goal"]
    assert trials[best]["objective"] == max(trial["objective"] for trial in trials)
    assert trials[best]["objective"] == pytest.approx(accuracy(trials[best]["values"], 9))
    assert next(iter(report["importances"])) == "learning_rate"
    assert report["search"] == {"method": "tpe", "objective": "val_accuracy", "mode": "max", "trials": 12}
    rows = list(csv.DictReader(io.StringIO(api.get(f"{path}/report?format=csv").text)))
    assert [float(row["learning_rate"]) for row in rows] == [trial["values"]["learning_rate"] for trial in trials]
    assert [row["pruned_at_epoch"] != "" for row in rows] == [trial["end_reason"] == "pruned" for trial in trials]
    page = api.get(f"{path}/report?format=markdown").text
    assert f"| {best} (best) |" in page
    assert "12 of 12 trials by tpe" in page
    assert "Importances: learning_rate" in page
    assert api.get(f"{path}/report?format=png").content.startswith(b"\x89PNG")
    with lab.sessions() as session:
        assert session.scalars(select(RunTime.durations_s)).all(), "of complete ones"
        assert not session.scalar(select(Study.is_searching))
        assert outbox.end_studies(session) == [study["id"]]


def test_a_search_that_is_killed_at_random_tells_the_same_trials(lab: Lab, submit: Callable[..., Json]) -> None:
    undisturbed, disturbed = submit(), submit()
    generator, memory = random.Random(4), Memory()  # noqa: S311 - the same seed, the same kills
    with lab.sessions.begin() as session:
        session.execute(update(Study).where(Study.id == disturbed["id"]).values(is_searching=False))
    lab.train(undisturbed["id"], look=lambda: lab.search(memory))  # a worker that remembers the curves
    with lab.sessions.begin() as session:
        session.execute(update(Study).where(Study.id == disturbed["id"]).values(is_searching=True))
    lab.train(disturbed["id"], look=lambda: lab.search_with_kills(generator))

    assert lab.kills >= 10
    assert lab.told(disturbed["id"]) == lab.told(undisturbed["id"])
    assert [job.study_cell for job in lab.jobs(disturbed["id"])] == list(range(12))
    assert any(told.state == "pruned" for told in lab.told(disturbed["id"]))


def test_many_workers_begin_no_trial_twice(lab: Lab, submit: Callable[..., Json]) -> None:
    study = submit(trials=20, parallel=7, method="random", prune=None)
    for _ in range(4):
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(lambda _: lab.search(), range(8)))
        for job in lab.live(study["id"]):
            lab.begin(job)
            lab.epoch(job, 1, 0.5)
            lab.end(job)
    jobs = lab.jobs(study["id"])
    assert [job.study_cell for job in jobs] == list(range(20))
    assert len({job.name for job in jobs}) == 20
    assert [job.study_values for job in jobs] == lab.values(study["id"])
    assert [job.spec["learning_rate"] for job in jobs] == [cell["learning_rate"] for cell in lab.values(study["id"])]


def test_a_pause_a_cancel_and_a_resume_hold_for_the_trials_to_come(
    api: TestClient, lab: Lab, submit: Callable[..., Json]
) -> None:
    study = submit(parallel=2)
    path = f"/v1/studies/{study['id']}"
    assert api.post(f"{path}/pause").status_code == 202
    assert lab.search() == 0
    api.post(f"{path}/resume")
    assert lab.search() == 2
    first, _ = lab.live(study["id"])
    lab.begin(first)
    api.post(f"{path}/pause")
    lab.end(first)
    assert lab.search() == 0
    assert api.get(path).json()["obstacle"] == "the search is paused"
    assert api.post(f"{path}/pause").json()["complete"] is False
    api.post(f"{path}/cancel")
    assert lab.search() == 0
    cancelled = api.get(path).json()
    assert (cancelled["complete"], cancelled["counts"]["cancelled"]) == (True, 1)
    resumed = api.post(f"{path}/resume").json()
    assert (resumed["complete"], resumed["cancel_requested_at"]) == (False, None)
    lab.search()
    assert len(lab.live(study["id"])) == 2
    assert [cell["jobs"][0]["replaced"] == [] for cell in api.get(path).json()["cells"]].count(False) == 1


def test_trials_are_told_by_their_usable_epochs_each_once(lab: Lab, submit: Callable[..., Json]) -> None:
    study = submit(trials=5, prune=None)
    for epochs in ([], [], [math.nan], [math.nan, 0.5], [0.5, 0.9]):
        lab.search()
        (job,) = lab.live(study["id"])
        lab.begin(job)
        for epoch, value in enumerate(epochs, 1):
            lab.epoch(job, epoch, value)
        if job.study_cell == 4:  # it runs its second epoch again
            lab.end(job, EndReason.PREEMPTED)
            lease = lab.begin(job)
            with lab.sessions.begin() as session:
                leases.resumed(session, lease, 10)
            lab.epoch(job, 2, 0.6)
        lab.end(job, EndReason.INTERNAL_ERROR if job.study_cell == 0 else EndReason.COMPLETED)
    assert [(told.state, told.objective) for told in lab.told(study["id"])] == [
        ("failed", None), ("failed", None), ("failed", None), ("complete", 0.5), ("complete", 0.6)
    ]  # fmt: skip


def test_a_pruned_trial_ends_whatever_becomes_of_its_attempt(lab: Lab, submit: Callable[..., Json]) -> None:
    study = submit(parallel=3, trials=3, prune={"name": "asha", "min_epochs": 1})
    lab.search()
    good, bad, lost = lab.live(study["id"])
    for job, value in ((good, 0.9), (bad, 0.1), (lost, 0.2)):
        lab.begin(job)
        lab.epoch(job, 1, value)
    lab.search()
    assert [lab.is_asked_to_end(job) for job in (good, bad, lost)] == [None, EndReason.PRUNED, EndReason.PRUNED]
    lab.search()
    lab.end(lost, EndReason.LEASE_EXPIRED)
    lab.end(bad, EndReason.COMPLETED)  # it was faster
    with lab.sessions() as session:
        ended = [session.get_one(Job, job.id) for job in (lost, bad)]
        assert [(job.status, job.end_reason, job.error) for job in ended] == [
            (Status.SUCCEEDED, EndReason.PRUNED, None), (Status.SUCCEEDED, EndReason.COMPLETED, None)
        ]  # fmt: skip
    assert [told.state for told in lab.told(study["id"])] == ["running", "complete", "pruned"]


def test_what_a_submission_would_be_refused_for_holds_a_search_back(
    api: TestClient, lab: Lab, submit: Callable[..., Json], client_of: Callable[..., TestClient]
) -> None:
    alice = client_of("alice")
    answer = alice.post("/v1/studies", json={"base": BASE, "search": SEARCH | {"parallel": 3}})
    path = f"/v1/studies/{answer.json()['id']}"
    for change, back, why in (
        (update(Project).values(max_queued=0), update(Project).values(max_queued=None), "0 of 0 jobs in the queue"),
        (update(Project).values(is_open=False), update(Project).values(is_open=True), "alice is no member"),
    ):
        with lab.sessions.begin() as session:
            session.execute(change)
        assert lab.search() == 0
        assert why in api.get(path).json()["obstacle"]
        revision = api.get(path).json()["revision"]
        lab.search()
        assert api.get(path).json()["revision"] == revision, "it is said once"
        with lab.sessions.begin() as session:
            session.execute(back)
    lab.most_queued = 2
    assert lab.search() == 2
    assert "alice has 2 of 2 jobs in the queue" in api.get(path).json()["obstacle"]
    with lab.sessions.begin() as session:
        session.execute(update(User).where(User.name == "alice").values(disabled_at=func.now()))
    lab.most_queued = 100
    assert lab.search() == 0
    assert api.get(path).json()["obstacle"] == "its owner alice is disabled"
    with lab.sessions.begin() as session:
        session.execute(update(User).values(disabled_at=None))
    assert lab.search() == 1
    assert api.get(path).json()["obstacle"] is None


def test_a_search_without_a_further_valid_choice_ends(api: TestClient, lab: Lab, submit: Callable[..., Json]) -> None:
    """Each value is valid with the first one of the other field, but one GPU and at least two are not."""
    study = submit(trials=4, prune=None, space={"gpus": [2, 1], "min_gpus": [1, 2]})
    for _ in range(4):
        lab.search()
        for job in lab.live(study["id"]):
            lab.begin(job)
            lab.end(job)
    state = api.get(f"/v1/studies/{study['id']}").json()
    assert (len(state["cells"]), state["obstacle"], state["complete"]) == (3, NO_CHOICE, True)
