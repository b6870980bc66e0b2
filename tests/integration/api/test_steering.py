"""Whose jobs and studies somebody may steer: their own, those of their projects, and an admin all."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.db.tables import Project, ProjectMember
from tests.integration.api.given import SPEC

Clients = Callable[..., TestClient]

STUDY = {"name": "grid", "base": SPEC | {"project": "vision"}, "grid": {"batch_size": [32, 64]}}
JOB_ORDERS = ("cancel", "pause", "resume")
STUDY_ORDERS = ("cancel", "pause", "resume", "notes")


@pytest.fixture
def people(sessions: Sessions, client_of: Clients) -> dict[str, TestClient]:
    """Olga, whose things it is about; Mia, who is with her in the project; Otto, who is not; Ann, an admin."""
    with sessions.begin() as session:
        session.add(Project(name="vision"))
    clients = {"olga": client_of("olga"), "mia": client_of("mia"), "otto": client_of("otto")}
    with sessions.begin() as session:
        session.add(ProjectMember(project="vision", user_name="mia"))
    return clients | {"ann": client_of("ann", "admin")}


@pytest.fixture
def submitted_by(people: dict[str, TestClient]) -> Callable[..., str]:
    """Submits a job, or a study, as Olga; says its path."""

    def submit(what: str, document: dict[str, Any]) -> str:
        answer = people["olga"].post(f"/v1/{what}", json=document)
        assert answer.status_code == 201, answer.text
        return f"/v1/{what}/{answer.json()['id']}"

    return submit


def ordered(client: TestClient, path: str, order: str) -> Any:
    """The answer to an order."""
    return client.post(f"{path}/{order}", json={"text": "well done"} if order == "notes" else None)


def test_anybody_clones_a_job_for_themselves(people: dict[str, TestClient], submitted_by: Callable[..., str]) -> None:
    path = submitted_by("jobs", SPEC | {"project": "vision"})
    clone = ordered(people["otto"], path, "clone")
    assert (clone.status_code, clone.json()["owner"]) == (201, "otto")


@pytest.mark.parametrize("order", JOB_ORDERS)
def test_a_job_is_steered_by_its_people_alone(
    people: dict[str, TestClient], submitted_by: Callable[..., str], order: str
) -> None:
    for who in ("olga", "mia", "ann"):
        path = submitted_by("jobs", SPEC | {"project": "vision"})
        assert ordered(people[who], path, order).status_code in (201, 202)
    before = people["otto"].get(path).json()  # everybody reads
    answer = ordered(people["otto"], path, order)
    assert answer.status_code == 403
    assert "belongs to olga, in the project vision" in answer.json()["detail"]
    assert people["otto"].get(path).json() == before


@pytest.mark.parametrize("order", STUDY_ORDERS)
def test_a_study_is_steered_by_its_people_alone(
    people: dict[str, TestClient], submitted_by: Callable[..., str], order: str
) -> None:
    path = submitted_by("studies", STUDY)
    for who in ("olga", "mia", "ann"):
        assert ordered(people[who], path, order).status_code in (201, 202)
    answer = ordered(people["otto"], path, order)
    assert answer.status_code == 403
    assert "belongs to olga, in the project vision" in answer.json()["detail"]


def test_members_of_one_project_do_not_steer_anothers(
    people: dict[str, TestClient], submitted_by: Callable[..., str]
) -> None:
    path = submitted_by("jobs", SPEC)

    assert ordered(people["mia"], path, "cancel").status_code == 403
    assert ordered(people["ann"], path, "cancel").status_code == 202


def test_what_is_not_there_is_not_found_whoever_asks(people: dict[str, TestClient]) -> None:
    for client in people.values():
        assert {ordered(client, "/v1/jobs/0000", order).status_code for order in JOB_ORDERS} == {404}
        assert {ordered(client, "/v1/studies/0000", order).status_code for order in STUDY_ORDERS} == {404}
