"""Jobs that wait over HTTP: the queue with its pages and accounts, what a job waits for, and pauses."""

from collections.abc import Callable, Collection, Mapping
from datetime import timedelta
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, update
from sqlalchemy.orm import Session

from jobs.db.engine import Sessions
from jobs.db.tables import AccountStanding, Job, Slot
from jobs.model.states import Status
from jobs.scheduling import queue_places
from jobs.scheduling.queue_rows import Lane, Moment, lanes_of
from tests.integration.api.answers import got
from tests.integration.api.starting_rows import a_host
from tests.integration.jobs import job_rows
from tests.integration.jobs.writing import change

Submit = Callable[..., str]


def queue(api: TestClient, **query: Any) -> dict[str, Any]:
    return got(api, "/v1/queue", **query)


def places(api: TestClient, **query: Any) -> dict[str, int]:
    return {job["id"]: job["position"] for job in queue(api, **query)["items"]}


def had(sessions: Sessions, user: str, used_part: float, entitled_part: float = 0.5, project: str = "default") -> None:
    """Let the last pass have known this of a user."""
    is_over = used_part > 1.1 * entitled_part
    with sessions.begin() as session:
        session.add(AccountStanding(
            project=project, user_name=user, used_slot_s=used_part * 1000, used_part=used_part,
            entitled_part=entitled_part, is_over=is_over,
        ))  # fmt: skip


def a_job(sessions: Sessions, *, level: int, **fields: Any) -> str:
    """A job that has had slots for some time."""
    job_id = job_rows.a_job(sessions, **fields)
    change(sessions, update(Job).where(Job.id == job_id).values(level=level))
    return job_id


def test_it_lists_the_jobs_in_the_sequence_of_their_turns(api: TestClient, sessions: Sessions) -> None:
    job_rows.a_host(sessions)
    ann = [job_rows.a_job(sessions, owner="ann") for _ in range(3)]
    ben = [a_job(sessions, owner="ben", level=level) for level in (1, 0)]
    urgent = job_rows.a_job(sessions, owner="ann", priority=60)
    had(sessions, "ann", 0.62)
    had(sessions, "ben", 0.38)
    page = queue(api)
    needs = "needs 2 slots on one host; best host has 0 free"
    assert [(job["id"], job["position"], job["priority"]) for job in page["items"]] == [
        (urgent, 1, 60), (ben[1], 2, 50), (ben[0], 3, 50), (ann[0], 4, 50), (ann[1], 5, 50), (ann[2], 6, 50),
    ]  # fmt: skip
    over = "because ann is over the share (used 62 % of the slots lately, entitled to 50 %)"
    assert [job["turn"] for job in page["items"]] == [3, 1, 2, 3, 3, 3]
    assert (page["policy"], page["total"], page["held_back"], page["next_cursor"]) == ("fair", 6, 0, None)
    change(sessions, update(Slot).values(in_use_by_others=True))
    reasons = [job["reason"] for job in queue(api)["items"]]
    assert reasons[:4] == [
        needs,
        f"{needs}; 1 job of higher priority comes first",
        f"{needs}; 2 jobs come first: 1 of higher priority, 1 of a lower level",
        f"{needs}; 3 jobs come first, {over}",
    ]
    accounts = [(one["user"], one["is_over"], one["queued"], one["running_slots"]) for one in page["accounts"]]
    assert accounts == [("ben", False, 2, 0), ("ann", True, 4, 0)]


def test_pages_follow_each_other_while_jobs_come_and_go(api: TestClient, sessions: Sessions) -> None:
    users = [f"user{number}" for number in range(4)]
    jobs = [job_rows.a_job(sessions, owner=users[number % 4], priority=50 + number % 2) for number in range(12)]
    for number, user in enumerate(users):
        had(sessions, user, 0.1 * number, 0.25)
    whole = list(places(api))
    assert sorted(whole) == sorted(jobs)
    listed, cursor = [], None
    while True:
        page = queue(api, limit=5, **({} if cursor is None else {"cursor": cursor}))
        listed += [job["id"] for job in page["items"]]
        if listed == whole[:5]:  # the last job of the page and the first one leave
            for gone in (whole[0], whole[4]):
                api.post(f"/v1/jobs/{gone}/cancel")
        cursor = page["next_cursor"]
        if cursor is None:
            break
    assert listed == whole


def test_filters_leave_the_places_as_they_are_and_jobs_of_one_moment_come_by_their_ids(
    api: TestClient, sessions: Sessions
) -> None:
    first = job_rows.a_job(sessions, owner="ann")
    ben = [job_rows.a_job(sessions, owner="ben") for _ in range(3)]
    for of_one_moment in (False, True):
        if of_one_moment:
            ben.sort()
            change(sessions, update(Job).where(Job.owner == "ben").values(created_at=func.now()))
        assert places(api, owner="ben") == {job_id: place for place, job_id in enumerate(ben, 2)}
        page = queue(api, owner="ben", limit=2)
        assert places(api, owner="ben", limit=2, cursor=page["next_cursor"]) == {ben[2]: 4}
    assert places(api, owner="ann", project="default") == {first: 1}
    assert places(api, project="nowhere") == {}
    answer = api.get("/v1/queue", params={"owner": "ann", "cursor": page["next_cursor"]})
    assert (answer.status_code, answer.json()["errors"][0]["field"]) == (422, "cursor")


def test_jobs_that_waited_for_half_a_day_come_first(api: TestClient, sessions: Sessions) -> None:
    jobs = [a_job(sessions, owner=f"user{number % 3}", level=2 - number % 2) for number in range(6)]
    for number in range(3):
        had(sessions, f"user{number}", 1 / 3, 1 / 3)
    young = places(api)
    with sessions.begin() as session:
        long_ago = func.now() - timedelta(hours=13)
        old = [jobs[5], jobs[2]]
        session.execute(update(Job).where(Job.id.in_(old)).values(created_at=long_ago, queued_at=long_ago))
    listed = places(api)
    assert list(listed) == [*sorted(old), *(job_id for job_id in young if job_id not in old)]
    assert list(listed.values()) == [1, 2, 3, 4, 5, 6]
    part = queue(api, limit=1)
    assert list(places(api, limit=2, cursor=part["next_cursor"])) == list(listed)[1:3]


def test_a_queue_by_age_has_no_accounts_and_jobs_without_a_place_are_only_counted(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    empty = api.get("/v1/queue")
    assert {**empty.json(), "items": [], "policy": "fair", "total": 0, "forecast": None} == empty.json()
    tag = {"If-None-Match": empty.headers["ETag"]}
    assert api.get("/v1/queue", headers=tag).status_code == 304
    a_host(sessions)
    paused, *jobs = (submit_job(priority=priority) for priority in (50, 10, 50, 50))
    api.post(f"/v1/jobs/{paused}/pause")
    page = api.get("/v1/queue", headers=tag).json()
    assert (page["policy"], page["accounts"], page["more_accounts"]) == ("fifo", [], 0)
    assert (page["total"], page["held_back"]) == (3, 1)
    assert [(job["id"], job["turn"]) for job in page["items"]] == [(jobs[1], 1), (jobs[2], 1), (jobs[0], 1)]


def test_a_hundred_accounts_are_shown_and_the_others_counted(api: TestClient, sessions: Sessions) -> None:
    for number in range(103):
        had(sessions, f"Ünal \u202e{number} <b>", number / 5000, 1 / 103)
    page = queue(api)
    assert (len(page["accounts"]), page["more_accounts"]) == (100, 3)
    assert page["accounts"][0]["user"] == "Ünal \u202e0 <b>"
    assert len(queue(api, owner="Ünal \u202e101 <b>")["accounts"]) == 1
    assert job_rows.count(sessions, AccountStanding) == 103


def test_a_job_that_gets_slots_meanwhile_has_no_place(
    api: TestClient, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = [job_rows.a_job(sessions) for _ in range(3)]

    def and_one_starts(session: Session, job_ids: Collection[str]) -> Mapping[Moment, Lane]:
        lanes = lanes_of(session, job_ids)
        change(sessions, update(Job).where(Job.id == jobs[0]).values(status=Status.RUNNING))
        return lanes

    monkeypatch.setattr(queue_places, "lanes_of", and_one_starts)
    job = api.get(f"/v1/jobs/{jobs[0]}").json()
    assert job["waiting"]["position"] is None
    assert list(places(api)) == jobs[1:]


def waiting(api: TestClient, job_id: str) -> dict[str, Any] | None:
    found: dict[str, Any] | None = api.get(f"/v1/jobs/{job_id}").json()["waiting"]
    return found


def test_a_queued_job_is_paused_and_resumed_until_it_has_ended(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    a_host(sessions)
    first, second = submit_job(), submit_job()
    paused = [api.post(f"/v1/jobs/{first}/pause") for _ in range(2)]
    assert [answer.status_code for answer in paused] == [202, 202]
    assert paused[0].json() == paused[1].json()
    assert (paused[0].json()["status"], paused[0].json()["paused_at"] is None) == ("queued", False)
    assert waiting(api, first) == {"position": None, "reason": "paused", "starts_in_s": None}
    listed = {job["id"]: job["waiting"] for job in api.get("/v1/jobs").json()["items"]}
    assert listed == {job_id: waiting(api, job_id) for job_id in (first, second)}
    assert listed[second]["position"] == 1

    resumed = api.post(f"/v1/jobs/{first}/resume")
    assert (resumed.status_code, resumed.json()["paused_at"]) == (202, None)
    assert list(places(api)) == [first, second]
    kinds = [event["kind"] for event in api.get(f"/v1/jobs/{first}/events").json()["items"]]
    assert kinds == ["submitted", "pause_requested", "resumed"]

    api.post(f"/v1/jobs/{first}/cancel")
    for verb in ("pause", "resume"):
        answer = api.post(f"/v1/jobs/{first}/{verb}")
        assert (answer.status_code, answer.json()["type"]) == (409, "urn:hora:problem:job-ended")
        assert api.post(f"/v1/jobs/0000/{verb}").status_code == 404
    assert waiting(api, first) is None
