"""Studies over HTTP: cancel, pause, resume, and notes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.db.tables import Job
from jobs.lifecycle import store
from jobs.model.states import Status
from tests.integration.api.answers import wrong_fields
from tests.integration.api.studies.study_jobs import BASE, Json, bring_to, job_ids, succeed
from tests.integration.jobs.job_rows import count


def test_a_cancel_ends_the_unfinished_jobs_and_a_resume_starts_them_again(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study()
    succeeded, running, failed, *queued = job_ids(study)
    succeed(sessions, succeeded, 10, accuracies=[0.9], gpus=1)
    bring_to(sessions, running, Status.LAUNCHING, Status.RUNNING)
    bring_to(sessions, failed, Status.LAUNCHING, Status.FAILED)
    path = f"/v1/studies/{study['id']}"

    cancelled = api.post(f"{path}/cancel")
    assert cancelled.status_code == 202
    assert cancelled.json()["counts"] == study["counts"] | {
        "queued": 0, "running": 1, "succeeded": 1, "failed": 1, "cancelled": 5,
    }  # fmt: skip
    assert cancelled.json()["cancel_requested_at"] is not None
    assert api.get(f"/v1/jobs/{running}").json()["cancel_requested_at"] is not None
    assert api.get(f"/v1/jobs/{queued[0]}").json()["end_reason"] == "cancelled"
    assert [e["kind"] for e in api.get(f"/v1/jobs/{queued[0]}/events").json()["items"]] == [
        "submitted", "cancel_requested", "ended",
    ]  # fmt: skip
    assert api.post(f"{path}/cancel").json() == cancelled.json()

    with ThreadPoolExecutor(4) as threads:
        resumed = [answer.json() for answer in threads.map(lambda _: api.post(f"{path}/resume"), range(4))]
    assert all(answer == resumed[0] for answer in resumed)
    assert resumed[0]["cancel_requested_at"] is None
    assert resumed[0]["counts"] == study["counts"] | {"queued": 7, "succeeded": 1}
    fresh = job_ids(resumed[0])
    assert fresh[0] == succeeded
    assert not set(fresh[1:]) & {running, failed, *queued}
    assert [job["replaced"] for cell in resumed[0]["cells"] for job in cell["jobs"]][1:4] == [
        [running], [failed], [queued[0]],
    ]  # fmt: skip
    assert count(sessions, Job) == 15
    before, after = (api.get(f"/v1/jobs/{job_id}").json() for job_id in (queued[0], fresh[3]))
    kept = ("spec", "plan", "study_cell", "study_repeat", "study_values", "owner")
    assert [before[name] == after[name] for name in kept] == [True] * 6


def test_a_cancel_saves_first_until_somebody_does_not_want_to_wait(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study()
    running, other, *queued = job_ids(study)
    for job_id in (running, other):
        bring_to(sessions, job_id, Status.LAUNCHING, Status.RUNNING)
    api.post(f"/v1/jobs/{other}/cancel")  # without saving
    path = f"/v1/studies/{study['id']}"

    def saving() -> list[bool]:
        with sessions() as session:
            return [store.cancel_saves(session, job_id) for job_id in (running, other)]

    def requests(job_id: str) -> list[Json]:
        events = api.get(f"/v1/jobs/{job_id}/events").json()["items"]
        return [event["data"] for event in events if event["kind"] == "cancel_requested"]

    first, second = (api.post(f"{path}/cancel?save=true").json() for _ in range(2))
    assert (first["counts"]["running"], first["counts"]["cancelled"]) == (2, 6)
    assert (saving(), second) == ([True, False], first)
    assert api.post(f"{path}/cancel").json()["revision"] == first["revision"] + 1
    assert saving() == [False, False]
    last = api.post(f"{path}/cancel?save=true").json()
    assert last == api.post(f"{path}/cancel").json()  # neither begins to save again
    assert [requests(job_id) for job_id in (running, other, queued[0])] == [
        [{"saves": True}, {}],
        [{}],
        [{"saves": True}],
    ]


def test_a_pause_holds_all_jobs_and_a_resume_lets_them_continue(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    study = submit_study()
    done, running, *queued = job_ids(study)
    succeed(sessions, done, 10, accuracies=[0.9], gpus=1)
    bring_to(sessions, running, Status.LAUNCHING, Status.RUNNING)
    path = f"/v1/studies/{study['id']}"

    paused = api.post(f"{path}/pause").json()
    assert (paused["paused"], paused["counts"]["queued"], paused["counts"]["running"]) == (7, 6, 1)
    assert [job["paused"] for cell in paused["cells"] for job in cell["jobs"]] == [False] + [True] * 7
    assert api.post(f"{path}/pause").json() == paused
    resumed = api.post(f"{path}/resume").json()
    assert (resumed["paused"], job_ids(resumed)) == (0, job_ids(study))
    kinds = [e["kind"] for e in api.get(f"/v1/jobs/{queued[0]}/events").json()["items"]]
    assert kinds == ["submitted", "pause_requested", "resumed"]
    assert api.post(f"{path}/resume").json() == resumed


def test_a_study_waits_for_the_jobs_that_its_base_names(
    api: TestClient, sessions: Sessions, submit_study: Callable[..., Json]
) -> None:
    good, bad = (api.post("/v1/jobs", json=BASE).json()["id"] for _ in range(2))
    study = submit_study(base=BASE | {"after": [good, bad]})
    waiting, cancelled, *_ = job_ids(study)
    reason = f"waits for 2 jobs: {good} (queued), {bad} (queued)"
    assert api.get(f"/v1/jobs/{waiting}").json()["waiting"] == {"position": None, "reason": reason, "starts_in_s": None}

    path = f"/v1/studies/{study['id']}"
    api.post(f"/v1/jobs/{cancelled}/cancel")
    fresh = job_ids(api.post(f"{path}/resume").json())
    assert cancelled not in fresh
    assert [api.get(f"/v1/jobs/{job_id}").json()["waiting"]["reason"] for job_id in fresh] == [reason] * 8
    bring_to(sessions, good, Status.LAUNCHING, Status.RUNNING, Status.SUCCEEDED)
    api.post(f"/v1/jobs/{bad}/cancel")
    assert api.get(path).json()["counts"]["cancelled"] == 8
    assert {api.get(f"/v1/jobs/{job_id}").json()["end_reason"] for job_id in fresh} == {"dependency"}
    refused = api.post(f"{path}/resume")
    assert wrong_fields(refused) == ["after.1"]
    assert f"job {bad} was cancelled" in refused.json()["detail"]


def test_notes_are_kept_with_their_author(api: TestClient, submit_study: Callable[..., Json]) -> None:
    path = f"/v1/studies/{submit_study()['id']}"
    answer = api.post(f"{path}/notes", json={"text": "  batches of 64\r\n\tlook best  "})

    assert answer.status_code == 201
    assert (answer.json()["text"], answer.json()["author"]) == ("batches of 64\n\tlook best", "admin")
    assert api.get(path).json()["notes"] == api.get(f"{path}/report").json()["notes"] == [answer.json()]
    for text in ("", "  \n", "x" * 10_001, "a\x00b", "\x1b[31m", 7):
        assert wrong_fields(api.post(f"{path}/notes", json={"text": text})) == ["text"]
