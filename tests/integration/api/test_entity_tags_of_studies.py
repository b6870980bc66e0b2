"""Entity tags of studies, their reports and hosts: every write that changes an answer changes its tag."""

from collections.abc import Iterable

from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Study
from jobs.model.states import Status
from tests.integration.api.polls import Poll, Write, touches, writes
from tests.integration.api.starting_rows import a_host, an_attempt, seconds
from tests.integration.api.studies.study_jobs import bring_to

STUDY = {
    "name": "two", "base": {"dataset": "digits", "learning_rate": 0.001, "gpus": 1}, "grid": {"batch_size": [32, 64]},
}  # fmt: skip


def all_change_with(polls: Iterable[Poll], write: Write) -> None:
    assert all(poll.is_unchanged() for poll in polls)
    write()
    assert not any(poll.is_unchanged() for poll in polls)


def test_the_tags_of_studies_and_reports_change_with_their_content(api: TestClient, sessions: Sessions) -> None:
    study_id = api.post("/v1/studies", json=STUDY).json()["id"]
    url = f"/v1/studies/{study_id}"
    list_poll, study_poll, report_poll = (Poll(api, path) for path in ("/v1/studies", url, f"{url}/report"))
    jobs = [job["id"] for cell in api.get(f"/v1/studies/{study_id}").json()["cells"] for job in cell["jobs"]]

    def attempt() -> None:
        an_attempt(sessions, jobs[1])
        touches(sessions, jobs[1], attempt=1)()

    polls = (list_poll, study_poll, report_poll)
    for write in (
        lambda: bring_to(sessions, jobs[0], Status.LAUNCHING),
        lambda: bring_to(sessions, jobs[0], Status.RUNNING, Status.SUCCEEDED, wall_s=3.0),
        lambda: api.post(f"{url}/notes", json={"text": "so it is"}),
    ):
        all_change_with(polls, write)
    study_poll.changes_with(lambda: api.post(f"/v1/jobs/{jobs[1]}/pause"))
    assert not list_poll.is_unchanged()
    report_poll.is_unchanged()
    report_poll.changes_with(attempt)
    for poll in polls:
        poll.is_unchanged()
    touches(sessions, jobs[1], progress={"epoch": 3})()
    assert all(poll.is_unchanged() for poll in polls)  # none of them shows progress
    list_poll.changes_with(lambda: api.post("/v1/studies", json=STUDY))
    writes(sessions, update(Study).where(Study.id == study_id).values(ended_at=func.now()))()
    assert not study_poll.is_unchanged()
    for form in ("markdown", "csv"):  # each has a tag of its own
        poll = Poll(api, f"{url}/report?format={form}")
        assert poll.is_unchanged()
        tag = api.get(f"{url}/report").headers["etag"]
        assert api.get(f"{url}/report?format={form}", headers={"If-None-Match": tag}).status_code == 200


def test_the_tags_of_hosts_change_with_their_content(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions)
    list_poll, host_poll = Poll(api, "/v1/hosts"), Poll(api, "/v1/hosts/ha")
    for write in (
        writes(sessions, update(Host).values(heartbeat_at=func.now())),
        lambda: api.post("/v1/hosts/ha/drain"),
        writes(sessions, update(Host).values(heartbeat_at=seconds(-(10**9)))),  # it is lost
    ):
        all_change_with((list_poll, host_poll), write)
    list_poll.changes_with(lambda: a_host(sessions, "hb"))
