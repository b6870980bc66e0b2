"""The list of studies: its pages, its filters by jobs, and the best value of each study."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import update

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.model.states import Status
from tests.integration.api.answers import created, got, wrong_fields
from tests.integration.api.polls import Poll
from tests.integration.api.studies.study_jobs import Json, job_ids
from tests.integration.jobs.writing import change

BASE = {"dataset": "digits", "learning_rate": 0.001, "gpus": 1}


def submit(api: TestClient, name: str, **base: Any) -> Json:
    return created(api, "/v1/studies", {"name": name, "base": BASE | base, "grid": {"batch_size": [32, 64]}})


def succeed(sessions: Sessions, job_id: str, **metrics: float | None) -> None:
    reported = {name: {"last": value, "best": value, "best_epoch": 1} for name, value in metrics.items()}
    change(sessions, update(Job).where(Job.id == job_id).values(status=Status.SUCCEEDED, metrics=reported))


def names(api: TestClient, **query: Any) -> list[str]:
    return [study["name"] for study in got(api, "/v1/studies", **query)["items"]]


def best(api: TestClient) -> dict[str, Any]:
    return {study["name"]: study["best"] for study in api.get("/v1/studies").json()["items"]}


def test_a_study_is_listed_if_one_job_matches_all_filters(
    api: TestClient, client_of: Callable[..., TestClient], sessions: Sessions
) -> None:
    first, second = submit(api, "first", labels={"team": "a"}), submit(api, "second")
    submit(client_of("ada"), "third")
    assert names(api) == ["third", "second", "first"]
    assert (names(api, owner="ada"), names(api, project="none")) == (["third"], [])
    assert names(api, label="team:a") == ["first"]
    assert (names(api, search="64"), names(api, search="SECOND")) == (["third", "second", "first"], ["second"])
    done, starred = job_ids(second)
    succeed(sessions, done)
    api.patch(f"/v1/jobs/{starred}", json={"starred": True})
    assert names(api, status="succeeded") == names(api, starred=True) == ["second"]
    assert names(api, starred=True, archived=False) == ["second"]
    assert names(api, archived=True) == []
    assert names(api, status="succeeded", starred=True) == []  # two jobs, of which neither is both
    assert names(api, status="succeeded,queued", label="team:a") == ["first"]
    assert api.get("/v1/studies", params={"status": "done"}).status_code == 422
    assert api.get("/v1/studies", params={"label": "team"}).status_code == 422
    assert api.get("/v1/studies", params={"study": first["id"]}).status_code == 422


def test_pages_go_newest_first_and_belong_to_their_filters(api: TestClient) -> None:
    ids = [submit(api, f"study {number}")["id"] for number in range(3)]
    api.post(f"/v1/studies/{ids[1]}/cancel")
    first = api.get("/v1/studies", params={"limit": 2}).json()
    second = api.get("/v1/studies", params={"limit": 2, "cursor": first["next_cursor"]}).json()
    lines = [*first["items"], *second["items"]]
    assert ([line["id"] for line in lines], second["next_cursor"]) == (ids[::-1], None)
    assert [(line["counts"]["cancelled"], line["complete"]) for line in lines] == [(0, False), (2, True), (0, False)]
    assert "cells" not in lines[0]
    assert wrong_fields(api.get("/v1/studies", params={"cursor": first["next_cursor"], "status": "queued"})) == [
        "cursor"
    ]


def test_the_best_value_of_the_goal_is_that_of_jobs_that_succeeded(api: TestClient, sessions: Sessions) -> None:
    accurate, lossy, custom = (
        submit(api, "accurate"),
        submit(api, "lossy", goal={"metric": "val_loss"}),
        submit(api, "custom", goal={"metric": "accuracy", "mode": "min"}),
    )
    assert best(api) == {"accurate": None, "lossy": None, "custom": None}
    poll = Poll(api, "/v1/studies")
    for study, one, other in ((accurate, 0.5, 0.9), (lossy, 3.0, 2.0), (custom, -1.0, 7.0)):
        for job_id, value in zip(job_ids(study), (one, other), strict=True):
            succeed(sessions, job_id, val_accuracy=value, val_loss=value, accuracy=value)
    assert best(api) == {
        "accurate": {"metric": "val_accuracy", "value": 0.9},
        "lossy": {"metric": "val_loss", "value": 2.0},
        "custom": {"metric": "accuracy", "value": -1.0},
    }
    assert not poll.is_unchanged()
    change(sessions, update(Job).where(Job.study_id == accurate["id"]).values(status=Status.FAILED))
    assert best(api)["accurate"] is None
    for job_id in job_ids(lossy):
        succeed(sessions, job_id, val_loss=None)
    assert best(api)["lossy"] is None, "all diverged"
