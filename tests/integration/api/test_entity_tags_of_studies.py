"""Entity tags of studies, their reports and hosts: every write that changes an answer changes its tag."""

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Study
from jobs.lifecycle import store
from jobs.model.states import EndReason, Status
from tests.integration.api.polls import Poll
from tests.integration.api.starting_rows import a_host, an_attempt, seconds

STUDY = {
    "name": "two", "base": {"dataset": "digits", "learning_rate": 0.001, "gpus": 1}, "grid": {"batch_size": [32, 64]},
}  # fmt: skip


def test_the_tags_of_studies_and_reports_change_with_their_content(api: TestClient, sessions: Sessions) -> None:
    study_id = api.post("/v1/studies", json=STUDY).json()["id"]
    url = f"/v1/studies/{study_id}"
    list_poll, study_poll, report_poll = (Poll(api, path) for path in ("/v1/studies", url, f"{url}/report"))
    jobs = [job["id"] for cell in api.get(f"/v1/studies/{study_id}").json()["cells"] for job in cell["jobs"]]

    def launch() -> None:
        with sessions.begin() as session:
            store.transition(session, jobs[0], Status.LAUNCHING)

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, jobs[0], progress={"epoch": 3})

    def succeed() -> None:
        with sessions.begin() as session:
            store.transition(session, jobs[0], Status.RUNNING)
            reason = EndReason.COMPLETED
            store.transition(session, jobs[0], Status.SUCCEEDED, end_reason=reason, summary={"wall_s": 3.0})

    def pause() -> None:
        api.post(f"/v1/jobs/{jobs[1]}/pause")

    def attempt() -> None:
        an_attempt(sessions, jobs[1])
        with sessions.begin() as session:
            store.touch(session, jobs[1], attempt=1)

    for write in (launch, succeed, lambda: api.post(f"/v1/studies/{study_id}/notes", json={"text": "so it is"})):
        for poll in (list_poll, study_poll, report_poll):
            assert poll.is_unchanged()
        write()
        for poll in (list_poll, study_poll, report_poll):
            assert not poll.is_unchanged()
    study_poll.changes_with(pause)
    assert not list_poll.is_unchanged()
    report_poll.is_unchanged()
    report_poll.changes_with(attempt)
    for poll in (list_poll, study_poll, report_poll):
        poll.is_unchanged()
    with sessions.begin() as session:
        store.touch(session, jobs[1], progress={"epoch": 3})
    assert all(poll.is_unchanged() for poll in (list_poll, study_poll, report_poll))  # none of them shows progress
    list_poll.changes_with(lambda: api.post("/v1/studies", json=STUDY))
    with sessions.begin() as session:
        session.execute(update(Study).where(Study.id == study_id).values(ended_at=func.now()))
    assert not study_poll.is_unchanged()


@pytest.mark.parametrize("form", ["markdown", "csv"])
def test_every_form_of_a_report_has_a_tag_of_its_own(api: TestClient, form: str) -> None:
    study_id = api.post("/v1/studies", json=STUDY).json()["id"]
    poll = Poll(api, f"/v1/studies/{study_id}/report?format={form}")
    assert poll.is_unchanged()
    tag = api.get(f"/v1/studies/{study_id}/report").headers["etag"]
    assert api.get(f"/v1/studies/{study_id}/report?format={form}", headers={"If-None-Match": tag}).status_code == 200


def test_the_tags_of_hosts_change_with_their_content(api: TestClient, sessions: Sessions) -> None:
    a_host(sessions)
    list_poll, host_poll = Poll(api, "/v1/hosts"), Poll(api, "/v1/hosts/ha")

    def beat() -> None:
        with sessions.begin() as session:
            session.execute(update(Host).values(heartbeat_at=func.now()))

    def lose() -> None:
        with sessions.begin() as session:
            session.execute(update(Host).values(heartbeat_at=seconds(-(10**9))))

    for write in (beat, lambda: api.post("/v1/hosts/ha/drain"), lose):
        for poll in (list_poll, host_poll):
            assert poll.is_unchanged()
        write()
        for poll in (list_poll, host_poll):
            assert not poll.is_unchanged()
    list_poll.changes_with(lambda: a_host(sessions, "hb"))
