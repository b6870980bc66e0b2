"""The metrics of many jobs in one answer: the same series that each job has by itself."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt
from jobs.lifecycle.store import touch
from tests.integration.api.answers import got
from tests.integration.api.polls import Poll
from tests.integration.api.starting_rows import an_attempt, metric_points

Submit = Callable[..., str]


@pytest.fixture
def trained_jobs(submit_job: Submit, sessions: Sessions) -> list[str]:
    """Three jobs: one of four epochs, one with a restart that made steps void, and one with steps in blocks."""
    uninterrupted, restarted, in_blocks = (submit_job() for _ in range(3))
    for job_id in (uninterrupted, in_blocks):
        an_attempt(sessions, job_id)
    an_attempt(sessions, restarted, 1)
    an_attempt(sessions, restarted, 2, resumed_step=4)
    for job_id, epochs, attempt in ((uninterrupted, 4, 1), (restarted, 3, 1), (restarted, 2, 2), (in_blocks, 3, 1)):
        for name in ("loss", "val_accuracy"):
            points = [(4 * n, n / 8 / attempt) for n in range(attempt, epochs + 1)]
            metric_points(sessions, job_id, points, name=name, rank=-1, attempt=attempt)
    metric_points(sessions, restarted, [(step, 1.0) for step in range(1, 8)], attempt=1)
    metric_points(sessions, restarted, [(step, 2.0) for step in range(5, 9)], attempt=2)
    metric_points(sessions, in_blocks, [(step, step / 100) for step in range(1, 2000)])
    return [in_blocks, uninterrupted, restarted]


def test_the_series_of_each_job_equal_those_of_its_own_request(
    api: TestClient, trained_jobs: list[str], subtests: pytest.Subtests
) -> None:
    queries: list[dict[str, Any]] = [
        {"name": "val_accuracy", "rank": -1, "max_points": 40},
        {"name": ["loss", "val_accuracy"], "rank": [-1, 0]},
        {"name": "loss", "rank": [-1, 0], "axis": "epoch", "from": 0.5, "to": 2},
        {"name": "loss", "rank": 0, "axis": "epoch", "from": 1},
        {"name": ["loss", "val_accuracy"], "rank": [0, -1], "axis": "time", "to": 3},
        {"name": "loss", "rank": 0, "from": 3, "to": 6},
        {"name": "nothing", "rank": 0, "axis": "epoch"},
    ]
    for query in queries:
        with subtests.test(query=query):
            alone = [{"id": one, **got(api, f"/v1/jobs/{one}/metrics", **query)} for one in trained_jobs]
            assert got(api, "/v1/metrics", job=trained_jobs, **query) == {"jobs": alone}
            assert query["name"] == "nothing" or any(one["series"] for one in alone)


def test_jobs_come_in_the_requested_order_with_figures_over_all_ranks(
    api: TestClient, trained_jobs: list[str], submit_job: Submit
) -> None:
    in_blocks, uninterrupted, restarted = trained_jobs
    without_points = submit_job()
    queried_ids = [restarted, "0nobody", in_blocks, restarted, uninterrupted, without_points]
    *jobs, last = got(api, "/v1/metrics", job=queried_ids, name="loss")["jobs"]

    assert [job["id"] for job in jobs] == [restarted, in_blocks, uninterrupted]
    assert last == {"id": without_points, "series": []}
    assert [[(one["name"], one["rank"]) for one in job["series"]] for job in jobs] == 3 * [[("loss", -1)]]
    first = jobs[0]["series"][0]
    assert (first["x"], first["y"]) == ([4, 8], [0.125, 0.125])


def test_a_request_for_too_many_points_is_refused(api: TestClient) -> None:
    ids = [f"{n}a" for n in range(100)]
    names = ["loss", "accuracy"]
    assert api.get("/v1/metrics", params={"job": ids, "name": names, "max_points": 5000}).status_code == 200
    problem = api.get("/v1/metrics", params={"job": ids, "name": names, "rank": [0, 1], "max_points": 2501})
    (error,) = problem.json()["errors"]
    assert (error["field"], error["received"]) == ("max_points", "2501")
    assert error["message"] == "at most 2500 points for each of 400 series (jobs x names x ranks)"
    for wrong in ({"job": [f"{n}" for n in range(201)], "name": "loss"}, {"job": "A", "name": "loss"}, {"job": ids}):
        assert api.get("/v1/metrics", params=wrong).status_code == 422
    again = {"job": [*ids, *ids], "name": names, "max_points": 5000}
    assert api.get("/v1/metrics", params=again).status_code == 200  # each once


def test_one_tag_covers_all_jobs_of_the_answer(
    api: TestClient, trained_jobs: list[str], submit_job: Submit, sessions: Sessions
) -> None:
    query = "&".join(["name=loss", *(f"job={one}" for one in trained_jobs)])
    poll, of_one = Poll(api, f"/v1/metrics?{query}"), Poll(api, f"/v1/metrics?name=loss&job={trained_jobs[0]}")

    def store_points() -> None:
        metric_points(sessions, trained_jobs[2], [(12, 0.5)], rank=-1)
        with sessions.begin() as session:
            session.execute(update(Attempt).where(Attempt.job_id == trained_jobs[2]).values(offsets={"records:0": 9}))

    def start_the_clock() -> None:
        with sessions.begin() as session:
            touch(session, trained_jobs[1], started_at=None)

    for write in (store_points, start_the_clock):
        poll.changes_with(write)
    poll.stands_still_with(submit_job)
    assert of_one.is_unchanged()
