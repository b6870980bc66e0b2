"""Changing submitted jobs over HTTP: what changes, who may, what history and audit log say, and what is refused."""

from collections.abc import Callable
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import AuditEntry, Job, ProjectUsage
from jobs.model.states import Status
from jobs.scheduling.placement_rows import QUEUE_ORDER
from tests.integration.api.answers import errors_of as errors
from tests.integration.api.answers import problem
from tests.integration.api.starting_rows import SPEC, end_job

ClientOf = Callable[..., TestClient]
Submit = Callable[..., str]


def events(api: TestClient, job_id: str) -> list[dict[str, Any]]:
    found = api.get(f"/v1/jobs/{job_id}/events").json()["items"]
    return [event["data"] for event in found if event["kind"] == "changed"]


def found(api: TestClient, **query: Any) -> list[str]:
    return [each["id"] for each in api.get("/v1/jobs", params=query).json()["items"]]


def test_all_that_can_change_changes_in_the_row_the_spec_and_the_history(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    ahead, job_id = submit_job(), submit_job(labels={"team": "vision", "draft": "yes"}, time_limit_s=60)
    before = api.get(f"/v1/jobs/{job_id}").json()
    changes = {"name": "renamed", "priority": 80, "time_limit_s": 7200.5, "labels": {"draft": None, "run": "2"}}
    answer = api.patch(f"/v1/jobs/{job_id}", json=changes)
    assert answer.status_code == 200, answer.text
    job = answer.json()
    labels = {"team": "vision", "run": "2"}
    assert (job["name"], job["priority"], job["labels"]) == ("renamed", 80, labels)
    news = {"name": "renamed", "priority": 80, "time_limit_s": 7200.5, "labels": labels}
    assert job["spec"] == before["spec"] | news
    assert job["revision"] == before["revision"] + 1
    old = {"name": "digits-lenet5-2x64", "priority": 50, "time_limit_s": 60, "labels": {"draft": "yes", "run": None}}
    assert events(api, job_id) == [
        {"by": "admin", "before": old, "after": news | {"labels": {"draft": None, "run": "2"}}}
    ]
    other = submit_job(**news)
    with sessions() as session:
        (entry,) = session.scalars(select(AuditEntry).where(AuditEntry.action == "job.changed")).all()
        assert list(session.scalars(select(Job.id).order_by(*QUEUE_ORDER))) == [job_id, other, ahead]
        keys = session.execute(select(Job.run_key, Job.work_key, Job.spec).where(Job.id.in_([job_id, other]))).all()
    assert (entry.subject, entry.data) == (job_id, events(api, job_id)[0]["after"])
    assert keys[0] == keys[1]  # estimates find it, and the spec is what it would be if it had been submitted so
    with sessions.begin() as session:
        session.execute(update(Job).values(status=Status.RUNNING))
    job = api.patch(f"/v1/jobs/{job_id}", json={"time_limit_s": None, "priority": 99}).json()
    assert (job["spec"]["time_limit_s"], job["priority"], job["status"]) == (None, 99, "running")


def test_repeating_a_change_changes_nothing(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job(labels={"team": "a"}, priority=60)
    changes = {"name": "x", "priority": 70, "labels": {"gone": None, "team": "b"}}
    first = api.patch(f"/v1/jobs/{job_id}", json=changes)
    for again in (changes, {}, {"labels": {}}, {"priority": 70}):
        answer = api.patch(f"/v1/jobs/{job_id}", json=again)
        assert (answer.status_code, answer.json(), answer.headers["ETag"]) == (200, first.json(), first.headers["ETag"])
    assert api.patch(f"/v1/jobs/{job_id}").json() == first.json()
    assert len(events(api, job_id)) == 1
    with sessions() as session:
        count = select(func.count()).where(AuditEntry.action == "job.changed")
        assert session.scalar(count) == 1
    end_job(sessions, job_id)
    assert api.patch(f"/v1/jobs/{job_id}", json=changes).status_code == 200  # its first answer was lost, say


def test_a_search_finds_a_job_by_its_new_name_labels_and_notes_only(api: TestClient, submit_job: Submit) -> None:
    job_id = submit_job(name="penguins", labels={"team": "polar"})
    api.patch(f"/v1/jobs/{job_id}", json={"notes": "plateau"})
    api.patch(f"/v1/jobs/{job_id}", json={"name": "Zebras", "labels": {"team": None, "place": "savanna"}})

    texts = {"zebra": 1, "SAVANNA": 1, "digits": 1, "plateau": 1, "penguin": 0, "polar": 0}
    assert {text: len(found(api, search=text)) for text in texts} == texts
    assert found(api, label="place:savanna") == [job_id]


def test_an_ended_job_keeps_its_priority_and_limit_but_gets_names_and_labels(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    end_job(sessions, job_id)
    answer = api.patch(f"/v1/jobs/{job_id}", json={"priority": 9, "time_limit_s": 9, "name": "lost"})
    assert (answer.status_code, answer.json()["type"]) == (409, "urn:hora:problem:job-ended")
    assert answer.json()["detail"] == (
        f"job {job_id} has already failed: its priority and time_limit_s cannot change any more;"
        " name, labels, notes, star, archive and project can"
    )
    assert api.get(f"/v1/jobs/{job_id}").json()["name"] == "digits-lenet5-2x64"
    job = api.patch(f"/v1/jobs/{job_id}", json={"name": "kept", "labels": {"for": "paper"}}).json()
    assert (job["name"], job["labels"], job["status"]) == ("kept", {"for": "paper"}, "failed")


def test_all_wrong_fields_are_named_together_and_nothing_changes(api: TestClient, submit_job: Submit) -> None:
    """What is wrong in a field: `tests/unit/jobs/model/test_job_changes.py`."""
    job_id = submit_job(labels={f"l{number}": "x" for number in range(60)})
    path = f"/v1/jobs/{job_id}"
    wrong = {"name": "fine", "priority": 200, "labels": {"ok": "x" * 256}, "gpus": 4, "notes": "\x1b[31m", "titel": "x"}
    found = errors(api.patch(path, json=wrong))
    assert found.keys() == {"priority", "labels.ok", "gpus", "notes", "titel"}
    assert found["gpus"].startswith("is fixed since the submission: submit a clone.")
    for body in ("{", '{"name": "\\ud800"}'):
        answer = api.patch(path, content=body, headers={"Content-Type": "application/json"})
        assert answer.status_code == 422, body
    assert api.patch(path, content="{}", headers={"Content-Type": "text/plain"}).status_code == 415
    for unknown in ("0000", "No-Id"):
        assert api.patch(f"/v1/jobs/{unknown}", json={"priority": 1}).status_code == 404
    more = {f"m{number}": "x" for number in range(5)}
    refused = api.patch(path, json={"labels": more})
    assert errors(refused) == {"labels": "the job would have 65 labels; 64 are allowed"}
    job = api.get(path).json()
    assert (job["name"], job["revision"]) == ("digits-lenet5-2x64", 1)
    assert api.patch(path, json={"labels": more | {"l0": None}}).status_code == 200


def test_without_a_ceiling_only_admins_raise_a_job_above_the_default(api: TestClient, client_of: ClientOf) -> None:
    ada = client_of("ada")
    low, high = (ada.post("/v1/jobs", json=SPEC | {"priority": priority}).json()["id"] for priority in (10, 90))

    def status(job_id: str, priority: int) -> int:
        return ada.patch(f"/v1/jobs/{job_id}", json={"priority": priority}).status_code

    assert [status(low, priority) for priority in (5, 50, 51, 40)] == [200, 200, 422, 200]
    assert [status(high, priority) for priority in (91, 90, 80, 81, 20, 50, 51)] == [422, 200, 200, 422, 200, 200, 422]
    found = errors(ada.patch(f"/v1/jobs/{high}", json={"priority": 100, "labels": {"a": "b"}}))
    why = "in the project default only admins may go above 50, because its max_priority is not set"
    assert found == {"priority": why}
    assert api.patch(f"/v1/jobs/{high}", json={"priority": 100}).json()["priority"] == 100


def test_a_ceiling_holds_for_submissions_and_changes_of_all_but_admins(api: TestClient, client_of: ClientOf) -> None:
    assert api.post("/v1/projects", json={"name": "vision", "max_priority": 80}).json()["max_priority"] == 80
    ada, spec = client_of("ada"), SPEC | {"project": "vision"}
    why = "in the project vision only admins may go above 80"
    for query in ("", "?dry_run=true"):
        refused = ada.post(f"/v1/jobs{query}", json=spec | {"priority": 81, "gpus": 1})
        assert errors(refused) == {"priority": why}
    study = {"base": spec, "grid": {"priority": [80, 81]}}
    assert errors(ada.post("/v1/studies", json=study)) == {"grid.priority[1]": why}
    job_id = ada.post("/v1/jobs", json=spec | {"priority": 80}).json()["id"]
    assert errors(ada.post(f"/v1/jobs/{job_id}/clone", json={"priority": 90})) == {"priority": why}
    assert errors(ada.patch(f"/v1/jobs/{job_id}", json={"priority": 90})) == {"priority": why}
    changed = [ada.patch(f"/v1/jobs/{job_id}", json={"priority": priority}).status_code for priority in (20, 80)]
    assert changed == [200, 200]
    assert api.post("/v1/jobs", json=spec | {"priority": 100}).status_code == 201
    assert api.patch(f"/v1/jobs/{job_id}", json={"priority": 95}).status_code == 200
    assert ada.patch(f"/v1/jobs/{job_id}", json={"priority": 95, "name": "x"}).json()["name"] == "x"
    assert ada.patch(f"/v1/jobs/{job_id}", json={"priority": 90}).status_code == 200
    api.patch("/v1/projects/vision", json={"max_priority": None})
    assert ada.post("/v1/jobs", json=spec | {"priority": 100}).status_code == 201
    for value in (-1, 101, 1.5, "80", True):
        assert errors(api.patch("/v1/projects/vision", json={"max_priority": value})).keys() == {"max_priority"}
    api.post("/v1/projects", json={"name": "spare", "max_priority": 0, "max_slots": 1})  # below the default priority
    assert errors(ada.post("/v1/jobs", json=SPEC | {"project": "spare"})).keys() == {"gpus", "priority"}
    of_none = SPEC | {"project": "spare", "priority": 0, "gpus": 1}
    assert ada.post("/v1/jobs", json=of_none).status_code == 201


def test_a_ceiling_holds_for_the_jobs_that_a_resumed_study_submits_again(api: TestClient, client_of: ClientOf) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_priority": 80})
    ada, base = client_of("ada"), SPEC | {"project": "vision", "priority": 80}
    study = ada.post("/v1/studies", json={"base": base, "grid": {"seed": [1, 2]}}).json()
    first, second = (job["id"] for cell in study["cells"] for job in cell["jobs"])
    path = f"/v1/studies/{study['id']}/resume"
    api.patch(f"/v1/jobs/{first}", json={"priority": 95})
    for job_id in (first, second):
        ada.post(f"/v1/jobs/{job_id}/cancel")
    assert errors(ada.post(path)) == {"priority": "in the project vision only admins may go above 80"}
    assert ada.get(f"/v1/studies/{study['id']}").json()["counts"]["cancelled"] == 2, "nothing was submitted"
    resumed = api.post(path).json()
    fresh = [api.get(f"/v1/jobs/{job['id']}").json() for cell in resumed["cells"] for job in cell["jobs"]]
    assert [(job["status"], job["priority"]) for job in fresh] == [("queued", 95), ("queued", 80)]


def test_notes_and_a_star_are_kept_also_after_the_end_and_found(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id, other = submit_job(), submit_job()
    end_job(sessions, job_id)
    before = api.get(f"/v1/jobs/{job_id}").json()
    assert (before["notes"], before["notes_at"], before["starred"]) == (None, None, False)
    notes = "# Why\r\n\n<img onerror=alert(1)> [Diverged](javascript:alert(1)) \u202e after\tepoch 9"
    job = api.patch(f"/v1/jobs/{job_id}", json={"notes": notes, "starred": True}).json()
    kept = notes.replace("\r\n", "\n")
    assert (job["notes"], job["starred"], job["revision"]) == (kept, True, before["revision"] + 1)
    assert job["notes_at"] is not None
    assert job["spec"] == before["spec"]
    assert api.get(f"/v1/jobs/{job_id}").json() == job | {"usage": before["usage"]}
    assert events(api, job_id)[0]["after"] == {"notes": len(kept), "starred": True}

    assert found(api, starred=True) == found(api, search="dIVERGED") == [job_id]
    assert (found(api, starred=False), found(api)) == ([other], [other, job_id])
    (listed,) = api.get("/v1/jobs", params={"starred": True}).json()["items"]
    assert (listed["notes"], listed["notes_at"], listed["starred"]) == (None, job["notes_at"], True)
    assert listed["notes_line"] == job["notes_line"] == " ".join(kept.split())
    api.patch(f"/v1/jobs/{job_id}", json={"notes": "é" * 20_000})
    assert api.get("/v1/jobs").json()["items"][1]["notes_line"] == "é" * 200
    for nothing in (None, "", " \n\t"):
        api.patch(f"/v1/jobs/{job_id}", json={"notes": "again"})
        job = api.patch(f"/v1/jobs/{job_id}", json={"notes": nothing, "starred": False}).json()
        assert (job["notes"], job["notes_line"], job["notes_at"], job["starred"]) == (None, None, None, False)
    assert found(api, search="diverged") == found(api, starred=True) == []


def test_an_ended_job_is_archived_and_found_where_it_is_asked_for(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id, other = submit_job(), submit_job()
    refused = api.patch(f"/v1/jobs/{job_id}", json={"archived": True, "name": "x"})
    assert (refused.status_code, refused.json()["type"]) == (409, "urn:hora:problem:job-not-ended")
    assert (
        refused.json()["detail"] == f"job {job_id} is queued: it can be archived when it has ended; cancel it, or wait"
    )
    assert api.patch(f"/v1/jobs/{job_id}", json={"archived": False}).json()["revision"] == 1, "it is as asked for"
    end_job(sessions, job_id)
    for _ in range(2):
        job = api.patch(f"/v1/jobs/{job_id}", json={"archived": True}).json()
        assert (job["archived"], job["revision"]) == (True, 2)
    assert [event["after"] for event in events(api, job_id)] == [{"archived": True}]

    assert (found(api, archived=True), found(api, archived=False), found(api)) == ([job_id], [other], [other, job_id])
    assert api.patch(f"/v1/jobs/{job_id}", json={"archived": False}).json()["archived"] is False


def stored_gb(api: TestClient, project: str) -> float:
    usage: float = api.get(f"/v1/projects/{project}").json()["usage"]["storage_gb"]
    return usage


def test_an_ended_job_moves_with_its_files_and_its_gpu_hours_stay(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    job_id = submit_job()
    end_job(sessions, job_id, stored_bytes=2 * 10**9)
    with sessions.begin() as session:
        month = func.date_trunc("month", func.now(), "UTC")
        session.add(ProjectUsage(project="default", month=month, slot_seconds=7200))
    before = api.get(f"/v1/jobs/{job_id}").json()
    for _ in range(2):  # the second time changes nothing
        moved = api.patch(f"/v1/jobs/{job_id}", json={"project": "vision"}).json()
        assert (moved["project"], moved["spec"]) == ("vision", before["spec"] | {"project": "vision"})
        assert moved["revision"] == before["revision"] + 1
    change = {"by": "admin", "before": {"project": "default"}, "after": {"project": "vision"}}
    assert events(api, job_id) == [change]
    assert [stored_gb(api, name) for name in ("default", "vision")] == [0, 2]
    assert api.get("/v1/projects/default").json()["usage"]["gpu_hours"] == 2
    assert [job["id"] for job in api.get("/v1/jobs", params={"project": "vision"}).json()["items"]] == [job_id]
    assert api.post(f"/v1/jobs/{job_id}/clone").json()["project"] == "vision"


def test_files_beyond_the_quota_of_the_new_project_are_refused(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    api.post("/v1/projects", json={"name": "vision", "max_storage_gb": 3})
    first, second, small = submit_job(), submit_job(), submit_job()
    for job_id, stored_bytes in ((first, 2 * 10**9), (second, 2 * 10**9), (small, 0)):
        end_job(sessions, job_id, stored_bytes=stored_bytes)
    to = {"json": {"project": "vision", "name": "moved"}}
    assert api.patch(f"/v1/jobs/{first}", **to).status_code == 200
    refused = api.patch(f"/v1/jobs/{second}", **to)
    why = "the project vision keeps 2 of 3 GB; this would add 2: remove files of it or of other jobs first"
    assert problem(refused, 409, "quota-exceeded")["detail"] == why
    job = api.get(f"/v1/jobs/{second}").json()
    assert (job["project"], job["name"], job["revision"]) == ("default", "digits-lenet5-2x64", 1)
    assert api.patch(f"/v1/jobs/{small}", **to).status_code == 200, "what stores nothing fits"


def test_it_takes_the_rights_for_both_projects(api: TestClient, client_of: ClientOf, sessions: Sessions) -> None:
    for name, is_open in (("vision", True), ("closed", False), ("ours", False)):
        api.post("/v1/projects", json={"name": name, "is_open": is_open})
    ada, bob, eve = client_of("ada"), client_of("bob"), client_of("eve")
    api.put("/v1/projects/ours/members/bob")
    job_id = ada.post("/v1/jobs", json=SPEC).json()["id"]
    end_job(sessions, job_id)

    def status(client: TestClient, project: str) -> int:
        return client.patch(f"/v1/jobs/{job_id}", json={"project": project}).status_code

    assert status(eve, "vision") == status(bob, "ours") == 403, "it is not theirs"
    assert errors(ada.patch(f"/v1/jobs/{job_id}", json={"project": None})).keys() == {"project"}
    assert status(ada, "closed") == 403
    assert (status(ada, "vision"), status(api, "ours"), status(bob, "vision")) == (200, 200, 200)
    assert status(bob, "ours") == 403, "it is in another project now"


def test_a_job_that_has_not_ended_stays(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    api.post("/v1/projects", json={"name": "vision"})
    job_id = submit_job()
    for status in (Status.QUEUED, Status.LAUNCHING, Status.RUNNING):
        with sessions.begin() as session:
            session.execute(update(Job).values(status=status))
        refused = api.patch(f"/v1/jobs/{job_id}", json={"project": "vision"})
        why = f"job {job_id} is {status}: it can move to another project when it has ended; cancel it, or wait"
        assert problem(refused, 409, "job-not-ended")["detail"] == why
        assert api.patch(f"/v1/jobs/{job_id}", json={"project": "default"}).status_code == 200, "it is there"
