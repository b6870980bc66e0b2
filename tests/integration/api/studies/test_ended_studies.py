"""Studies that have ended, over HTTP: deleted, or moved to another project, with all their jobs or not at all."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import (
    DeletedJob,
    IdempotencyKey,
    Job,
    ProjectUsage,
    Study,
    StudyNote,
    Webhook,
    WebhookDelivery,
)
from jobs.insight.studies import control, ended
from jobs.lifecycle.store import locked_job
from jobs.model.states import EndReason, Status
from jobs.people.project_admission import Applicant
from tests.integration.api.answers import wrong_fields
from tests.integration.api.starting_rows import SPEC
from tests.integration.api.studies.study_jobs import BASE, STUDY, Json, job_ids
from tests.integration.jobs.job_rows import count, tables_with

Submit = Callable[..., Json]
GB = 10**9


def end_all(sessions: Sessions, study: Json, *, stored_bytes: int = 0) -> None:
    """End its jobs, each with so many bytes."""
    values = {"status": Status.FAILED, "end_reason": EndReason.BAD_DATA, "ended_at": func.now()}
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.study_id == study["id"]).values(**values, checkpoint_bytes=stored_bytes))


def refusal(answer: Any) -> tuple[int, str, str]:
    assert answer.status_code == 409, answer.text
    return answer.json()["type"].rpartition(":")[2], answer.json()["detail"]


def test_a_deleted_study_is_nowhere_and_neither_are_its_jobs(
    api: TestClient, sessions: Sessions, submit_study: Submit
) -> None:
    kept = submit_study()
    study = api.post("/v1/studies", json=STUDY | {"note": "so far"}, headers={"Idempotency-Key": "k"}).json()
    end_all(sessions, study)
    path = f"/v1/studies/{study['id']}"
    replaced = api.post(f"{path}/resume").json()  # all have failed, so each is replaced
    end_all(sessions, study)
    jobs = [*job_ids(study), *job_ids(replaced)]
    assert len(set(jobs)) == 16
    with sessions.begin() as session:
        session.add(Webhook(id="hook", owner="me", url="https://x", events=["study.ended"], secret="s"))
        session.flush()
        for study_id in (study["id"], kept["id"]):
            session.add(WebhookDelivery(webhook_id="hook", event="study.ended", subject_id=study_id))
        session.add(ProjectUsage(project="default", month=func.date_trunc("month", func.now(), "UTC"), slot_seconds=7))

    assert api.delete(path).status_code == 204
    assert tables_with(sessions, study["id"]) == ["audit_entries"]
    assert {table for job_id in jobs for table in tables_with(sessions, job_id)} == {"deleted_jobs"}
    assert [count(sessions, table) for table in (Study, StudyNote, IdempotencyKey, Job)] == [1, 0, 0, 8]
    with sessions() as session:
        assert list(session.scalars(select(WebhookDelivery.subject_id))) == [kept["id"]]
        assert session.scalar(select(ProjectUsage.slot_seconds)) == 7
    assert {api.get(path + part).status_code for part in ("", "/report", "/curves")} == {404}
    assert api.get("/v1/studies").json()["items"][0]["id"] == kept["id"]
    (entry,) = api.get("/v1/audit", params={"action": "study.deleted"}).json()["items"]
    what = {"name": "scaling", "owner": "admin", "project": "default", "jobs": 16}
    assert (entry["subject"], entry["actor"], entry["data"]) == (study["id"], "admin", what)
    assert api.delete(path).status_code == 404


def test_a_study_that_goes_on_stays(api: TestClient, sessions: Sessions, submit_study: Submit) -> None:
    study = submit_study()
    end_all(sessions, study)
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == job_ids(study)[3]).values(status=Status.RUNNING))
    space = {"learning_rate": [0.1, 0.2]}
    search = api.post(
        "/v1/studies", json={"base": BASE | {"batch_size": 32}, "search": {"space": space, "trials": 2}}
    ).json()
    for study_id, then, request in (
        (study["id"], "it can be deleted", ("DELETE", {})),
        (search["id"], "it can be deleted", ("DELETE", {})),
        (study["id"], "it can move to another project", ("PATCH", {"json": {"project": "vision"}})),
    ):
        method, body = request
        answer = api.request(method, f"/v1/studies/{study_id}", **body)
        why = f"study {study_id} goes on: {then} when it has ended; cancel it, or wait"
        assert refusal(answer) == ("study-not-ended", why)
    assert api.post(f"/v1/studies/{search['id']}/cancel").json()["complete"] is True
    assert api.delete(f"/v1/studies/{search['id']}").status_code == 204


def test_if_something_needs_one_of_its_jobs_nothing_is_deleted(
    api: TestClient, sessions: Sessions, submit_study: Submit
) -> None:
    study = submit_study()
    end_all(sessions, study)
    path, needed = f"/v1/studies/{study['id']}", job_ids(study)[-1]
    with sessions.begin() as session:
        session.execute(update(Job).where(Job.id == needed).values(status=Status.SUCCEEDED))
    model = {"name": "lenet5", "weights": f"job:{needed}"}
    starting = api.post("/v1/jobs", json=SPEC | {"model": model}).json()["id"]
    slug, why = refusal(api.delete(path))
    assert slug == "job-in-use"
    assert why.startswith(f"job {needed} cannot be deleted: job {starting} starts from its weights")
    assert [count(sessions, table) for table in (Study, Job, DeletedJob)] == [1, 9, 0]
    one = refusal(api.delete(f"/v1/jobs/{needed}"))[1]
    assert f"it belongs to study {study['id']}, whose results need it; delete the whole study" in one
    api.post(f"/v1/jobs/{starting}/cancel")
    assert api.delete(path).status_code == 204


def test_a_study_in_an_article_stays_until_it_is_not_shown(
    api: TestClient, sessions: Sessions, submit_study: Submit
) -> None:
    study = submit_study()
    end_all(sessions, study)
    for shown in (f"study: {study['id']}", f"jobs: {job_ids(study)[2]}"):
        chart = {"project": "default", "title": "Curves", "text": f"```hora\nchart: loss\n{shown}\n```"}
        article = api.post("/v1/articles", json=chart).json()["id"]
        why = f"cannot be deleted: article {article} shows it or one of its jobs; remove it there first"
        assert refusal(api.delete(f"/v1/studies/{study['id']}")) == ("job-in-use", f"study {study['id']} {why}")
        assert api.delete(f"/v1/articles/{article}").status_code == 204
    assert api.delete(f"/v1/studies/{study['id']}").status_code == 204


def test_a_study_moves_with_its_jobs_and_goes_on_there(
    api: TestClient, sessions: Sessions, submit_study: Submit
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    study = submit_study()
    end_all(sessions, study, stored_bytes=GB // 4)
    path = f"/v1/studies/{study['id']}"
    moved = [api.patch(path, json={"project": "vision"}) for _ in range(2)]
    assert [answer.status_code for answer in moved] == [200, 200]
    assert moved[0].json() == moved[1].json(), "the second time changes nothing"
    assert moved[0].headers["ETag"] == api.get(path).headers["ETag"]
    assert (moved[0].json()["project"], moved[0].json()["base"]) == ("vision", BASE | {"project": "vision"})
    jobs = [api.get(f"/v1/jobs/{job_id}").json() for job_id in job_ids(study)]
    assert {(job["project"], job["spec"]["project"]) for job in jobs} == {("vision", "vision")}
    (change,) = [
        each for each in api.get(f"/v1/jobs/{jobs[0]['id']}/events").json()["items"] if each["kind"] == "changed"
    ]
    assert change["data"] == {"by": "admin", "before": {"project": "default"}, "after": {"project": "vision"}}
    usage = [api.get(f"/v1/projects/{name}").json()["usage"]["storage_gb"] for name in ("default", "vision")]
    assert usage == [0, 2]
    (entry,) = api.get("/v1/audit", params={"action": "study.changed"}).json()["items"]
    assert (entry["subject"], entry["data"]) == (study["id"], {"project": "vision"})
    fresh = job_ids(api.post(f"{path}/resume").json())
    assert {api.get(f"/v1/jobs/{job_id}").json()["project"] for job_id in fresh} == {"vision"}


def test_a_study_moves_only_where_all_its_files_have_room(
    api: TestClient, sessions: Sessions, submit_study: Submit
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    study = submit_study()
    end_all(sessions, study, stored_bytes=GB)
    path = f"/v1/studies/{study['id']}"
    why = "the project vision keeps 0 of 3 GB; this would add 8: remove files of it or of other jobs first"
    assert refusal(api.patch(path, json={"project": "vision"})) == ("quota-exceeded", why)
    api.post("/v1/projects", json={"name": "old"})
    api.patch("/v1/projects/old", json={"is_archived": True})
    assert "this project is archived" in api.patch(path, json={"project": "old"}).text
    wrong = ({"project": "visoin"}, {"project": "old"}, {"name": "x", "project": "a"}, {})
    assert [wrong_fields(api.patch(path, json=body)) for body in wrong] == [
        ["project"],
        ["project"],
        ["name"],
        ["project"],
    ]
    assert api.get(path).json()["revision"] == study["revision"]
    job_id = job_ids(study)[0]
    why = f"job {job_id} belongs to study {study['id']}: jobs of a study stay in its project; move the whole study"
    assert refusal(api.patch(f"/v1/jobs/{job_id}", json={"project": "vision"})) == ("job-in-use", why)


def test_while_a_study_is_deleted_or_moved_nobody_resumes_it_or_changes_its_jobs(
    sessions: Sessions, submit_study: Submit
) -> None:
    study = submit_study()
    end_all(sessions, study)
    others: list[Callable[[Session], object]] = [
        lambda session: control.resume(session, study["id"], by=Applicant("admin", is_admin=True)),
        lambda session: locked_job(session, job_ids(study)[5]),
    ]
    with sessions() as deleting:
        ended.lock_ended(deleting, study["id"], then="it can be deleted")
        for other in others:
            with sessions() as session:
                session.execute(text("SET LOCAL lock_timeout = '100ms'"))
                with pytest.raises(OperationalError, match="lock timeout"):
                    other(session)
