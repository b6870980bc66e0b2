"""Answers that propose what was probably meant, and name every wrong field at once."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from tests.integration.api.answers import errors_of
from tests.integration.api.starting_rows import SPEC, a_host


def test_a_misspelt_id_or_name_is_answered_with_the_similar_one(
    api: TestClient, sessions: Sessions, submit_job: Callable[..., str], subtests: pytest.Subtests
) -> None:
    a_host(sessions, "gpu-1")
    job_id = submit_job()
    study = {"name": "s", "base": SPEC, "grid": {"gpus": [1]}}
    study_id = api.post("/v1/studies", json=study).json()["id"]
    api.post("/v1/projects", json={"name": "vision"})
    wrong = {
        f"/v1/jobs/{'0' if job_id[0] != '0' else '1'}{job_id[1:]}/events": job_id,
        f"/v1/studies/{'0' if study_id[0] != '0' else '1'}{study_id[1:]}": study_id,
        "/v1/hosts/gpu1": "gpu-1",
        "/v1/projects/visoin": "vision",
    }
    for path, meant in wrong.items():
        with subtests.test(path=path):
            answer = api.get(path)
            assert answer.status_code == 404
            assert answer.json()["detail"].endswith(f"; did you mean {meant}?")
    assert api.get("/v1/jobs/000000000000").json()["detail"] == "there is no job 000000000000"


def test_users_are_proposed_to_admins_alone(api: TestClient, client_of: Callable[..., TestClient]) -> None:
    api.post("/v1/tokens", json={"name": "x", "user": "alice"})
    changed = api.patch("/v1/users/alcie", json={"disabled": True})
    assert changed.json()["detail"] == "there is no user alcie; did you mean alice?"
    assert "alice" not in client_of("bob").patch("/v1/users/alcie", json={"disabled": True}).text


def test_no_id_is_proposed_of_what_others_may_not_see(
    api: TestClient, client_of: Callable[..., TestClient], subtests: pytest.Subtests
) -> None:
    webhook = api.post("/v1/webhooks", json={"url": "https://hooks.example.com/x"}).json()["id"]
    upload = api.post("/v1/uploads", json={"filename": "a.zip", "size_bytes": 3}).json()["id"]
    code = "ab" * 32
    others = client_of("bob", Scope.SUBMIT)
    for path in (f"/v1/webhooks/{webhook[:-1]}", f"/v1/uploads/{upload[:-1]}", f"/v1/code/{code}"):
        with subtests.test(path=path):
            answer = others.get(path)
            assert answer.status_code == 404
            assert "did you mean" not in answer.text


def test_closed_projects_are_proposed_to_those_who_may_submit_there(
    api: TestClient, sessions: Sessions, client_of: Callable[..., TestClient]
) -> None:
    a_host(sessions)
    api.post("/v1/projects", json={"name": "secret-lab", "is_open": False})
    misspelt = SPEC | {"project": "secret-lap"}
    assert errors_of(api.post("/v1/jobs", json=misspelt))["project"].endswith("; did you mean secret-lab?")
    told = errors_of(client_of("bob", Scope.SUBMIT).post("/v1/jobs", json=misspelt))["project"]
    assert told == "there is no such project; there are: default"


def test_one_answer_names_what_the_spec_and_what_the_service_refuses(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions)
    wrong = {
        "dataset": {"source": "digit", "format": "parket"},
        "model": "resnet5",
        "learning_rate": -1,
        "gpus": 99,
        "project": "visoin",
        "after": ["000000000000"],
        "epcohs": 3,
    }
    told = errors_of(api.post("/v1/jobs", json=wrong))
    assert errors_of(api.post("/v1/jobs?dry_run=true", json=wrong)) == told
    assert told.keys() == {
        "dataset.source", "dataset.format", "model.name", "learning_rate", "gpus", "project", "after.0", "epcohs",
    }  # fmt: skip
    assert told["dataset.source"].endswith("; did you mean digits?")
    assert told["model.name"].endswith("; did you mean resnet56?")
    right_but_not_here = SPEC | {"model": "resnet5", "project": "nope", "gpus": 99}
    assert errors_of(api.post("/v1/jobs", json=right_but_not_here)).keys() == {"model.name", "project", "gpus"}
    assert api.get("/v1/jobs").json()["items"] == []


def test_a_clone_and_a_study_are_told_everything_too(
    api: TestClient, sessions: Sessions, submit_job: Callable[..., str]
) -> None:
    a_host(sessions)
    job_id = submit_job()
    wrong = {"learning_rate": -1, "dataset": "digit"}
    assert errors_of(api.post(f"/v1/jobs/{job_id}/clone", json=wrong)).keys() == {"learning_rate", "dataset.source"}
    study = {"name": "s", "base": SPEC | wrong | {"gpus": 99}, "grid": {"gpus": [1, 2], "optimizer": ["adma"]}}
    assert errors_of(api.post("/v1/studies", json=study)).keys() == {
        "base.learning_rate", "base.dataset.source", "grid.optimizer[0]",
    }  # fmt: skip
    wrong_study = study | {"repeats": 0, "grid": {"gpuz": [1]}}
    told = errors_of(api.post("/v1/studies", json=wrong_study))
    assert told.keys() == {"repeats", "grid.gpuz", "base.learning_rate", "base.dataset.source", "base.gpus"}
    assert told["grid.gpuz"].endswith("; did you mean `gpus`?")
