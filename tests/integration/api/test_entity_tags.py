"""Entity tags: what has not changed is not sent again, and every write that changes an answer changes its tag."""

from collections.abc import Callable, Iterable

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, insert, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, HostSample, Job, LogLine, Rollup, Slot, Study
from jobs.lifecycle import store
from jobs.lifecycle.store import Lease
from jobs.model.states import EventKind, Status
from tests.integration.api import starting_rows
from tests.integration.api.polls import Poll, Write, touches, writes
from tests.integration.api.starting_rows import a_host, log_lines, metric_points, samples, seconds
from tests.integration.api.studies.study_jobs import bring_to
from tests.integration.jobs.job_rows import an_attempt, end_attempt

Submit = Callable[..., str]


@pytest.fixture
def running(submit_job: Submit, sessions: Sessions) -> Lease:
    """A job that was placed on two slots."""
    a_host(sessions)
    return an_attempt(sessions, submit_job(name="polled"))


def offsets(sessions: Sessions, lease: Lease, to: int) -> None:
    """What an intake writes in the transaction in which it stores anything."""
    writes(sessions, update(Attempt).where(Attempt.id == lease.attempt_id).values(offsets={"records:0": to}))()


def test_the_tag_of_a_job_changes_with_its_content(api: TestClient, running: Lease, sessions: Sessions) -> None:
    url = f"/v1/jobs/{running.job_id}"
    tag = api.get(url).headers["etag"]
    for known in (tag, tag.removeprefix("W/"), f'W/"7", {tag}', "*"):
        answer = api.get(url, headers={"If-None-Match": known})
        assert (answer.status_code, answer.content, answer.headers["etag"]) == (304, b"", tag)
    poll = Poll(api, url)
    poll.changes_with(touches(sessions, running.job_id, progress={"epoch": 1}))
    poll.changes_with(lambda: api.patch(url, json={"labels": {"a": "b"}}))
    paused = api.post(f"{url}/pause", headers={"If-None-Match": "*"})
    assert not poll.is_unchanged()
    assert paused.headers["etag"] == api.get(url).headers["etag"]
    poll.changes_with(lambda: end_attempt(sessions, running, releases=False))


def test_the_tag_of_a_list_changes_with_its_jobs_and_the_queue(
    api: TestClient, submit_job: Submit, running: Lease, sessions: Sessions
) -> None:
    everything, of_one, first = Poll(api, "/v1/jobs"), Poll(api, "/v1/jobs?name=polled"), Poll(api, "/v1/jobs?limit=1")
    everything.changes_with(touches(sessions, running.job_id, progress={"epoch": 1}))
    assert not of_one.is_unchanged()
    assert not first.is_unchanged()
    first.changes_with(lambda: submit_job(name="other"))  # it has the place of the one before, and there is a next page
    assert of_one.is_unchanged()
    assert not everything.is_unchanged()
    ahead = submit_job(name="ahead", priority=60)  # the queue moves: no row of the others changes
    (other,) = api.get("/v1/jobs?name=other").json()["items"]
    of_other = [Poll(api, path) for path in ("/v1/jobs?name=other", f"/v1/jobs/{other['id']}")]
    all_change_with(of_other, lambda: api.post(f"/v1/jobs/{ahead}/cancel"))
    all_change_with(of_other, writes(sessions, update(Host).values(heartbeat_at=seconds(-(10**9)))))  # it is lost


def test_different_queries_have_different_tags_and_none_hides_a_wrong_one(api: TestClient, running: Lease) -> None:
    for first_path, second_path in (
        ("/v1/jobs?limit=5", "/v1/jobs?limit=6"),
        ("/v1/jobs", "/v1/jobs?project=default&status=launching"),
        (f"/v1/jobs/{running.job_id}/metrics", f"/v1/jobs/{running.job_id}/metrics?axis=time"),
        (f"/v1/jobs/{running.job_id}/utilization", f"/v1/jobs/{running.job_id}/utilization?axis=step"),
        (f"/v1/jobs/{running.job_id}/events", f"/v1/jobs/{running.job_id}/events?limit=2"),
    ):
        tags = [api.get(path).headers["etag"] for path in (first_path, second_path)]
        assert tags[0] != tags[1]
        assert api.get(second_path, headers={"If-None-Match": tags[0]}).status_code == 200
    any_tag = {"If-None-Match": "*"}
    assert api.get("/v1/jobs/NO", headers=any_tag).json()["type"] == "urn:hora:problem:job-not-found"
    for part in ("", "/metrics", "/utilization", "/logs", "/events", "/attempts"):
        assert api.get(f"/v1/jobs/0000{part}", headers=any_tag).json()["type"] == "urn:hora:problem:job-not-found"
    for path in ("/v1/studies/0000", "/v1/studies/0000/report"):
        assert api.get(path, headers=any_tag).json()["type"] == "urn:hora:problem:study-not-found"
    assert api.get("/v1/jobs?cursor=x", headers=any_tag).status_code == 422
    assert api.get("/v1/jobs/0000?verbose=1", headers=any_tag).status_code == 422


def test_the_tag_of_metrics_changes_with_points_but_not_with_leases(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}/metrics")

    def store_points() -> None:
        metric_points(sessions, running.job_id, [(1, 0.5), (2, 0.4)])
        offsets(sessions, running, 10)

    poll.changes_with(store_points)
    poll.changes_with(writes(sessions, update(Attempt).values(resumed_step=1)))  # an attempt before it is void beyond
    poll.changes_with(touches(sessions, running.job_id, started_at=seconds(0)))
    poll.stands_still_with(writes(sessions, update(Attempt).values(lease_expires_at=func.now())))


def test_series_have_no_stable_tag_while_they_are_thinned(api: TestClient, running: Lease, sessions: Sessions) -> None:
    end_attempt(sessions, running, releases=False)
    polls = [Poll(api, f"/v1/jobs/{running.job_id}/{series}") for series in ("metrics", "utilization")]
    assert all(poll.is_unchanged() for poll in polls)
    place = {"job_id": running.job_id, "source": "metric", "name": "loss", "rank": 0, "attempt": 0, "bin": 0}
    writes(sessions, insert(Rollup).values(**place, first_at=seconds(0), last_at=seconds(1), count=2))()
    assert not any(poll.is_unchanged() for poll in polls)
    assert not any(poll.is_unchanged() for poll in polls)
    writes(sessions, update(Job).values(series_thinned_at=func.now(), revision=Job.revision + 1))()
    assert not any(poll.is_unchanged() for poll in polls)
    assert all(poll.is_unchanged() for poll in polls)


def test_the_tag_of_utilization_changes_with_its_content(api: TestClient, running: Lease, sessions: Sessions) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}/utilization")
    poll.changes_with(lambda: samples(sessions, running.job_id, [{"cpu_percent": 50.0}, {"cpu_percent": 60.0}]))
    poll.changes_with(lambda: samples(sessions, running.job_id, [{"cpu_percent": 70.0}], rank=1))

    poll.changes_with(writes(sessions, update(Slot).values(memory_bytes=2**30)))
    poll.changes_with(writes(sessions, update(Host).values(info={"memory_bytes": 2**34})))

    def epoch_ends() -> None:
        metric_points(sessions, running.job_id, [(4, 0.4)], rank=-1)
        offsets(sessions, running, 11)

    poll.changes_with(epoch_ends)
    with sessions.begin() as session:
        session.execute(update(Job).values(created_at=seconds(0)))
        session.add_all(HostSample(host="ha", at=seconds(at), cpu_percent=1.0) for at in (0, 1))
    assert not poll.is_unchanged()
    poll.changes_with(writes(sessions, delete(HostSample).where(HostSample.at == seconds(0))))


def test_the_tags_of_logs_events_and_attempts_change_with_their_content_but_not_with_progress(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    url = f"/v1/jobs/{running.job_id}"
    cursor = api.get(f"{url}/events?limit=1").json()["next_cursor"]
    parts = ("logs", "events", f"events?cursor={cursor}", "attempts")
    logs, events, later, attempts = (Poll(api, f"{url}/{part}") for part in parts)

    def store_lines() -> None:
        log_lines(sessions, running.job_id, [(0, "one"), (0, "two")])
        offsets(sessions, running, 12)

    def something_happens() -> None:
        with sessions.begin() as session:
            store.add_event(session, running.job_id, EventKind.FIRST_STEP)

    logs.changes_with(store_lines)
    logs.changes_with(writes(sessions, delete(LogLine).where(LogLine.text == "one")))
    logs.stands_still_with(touches(sessions, running.job_id, progress={"epoch": 3}))
    events.changes_with(something_happens)
    assert not later.is_unchanged()
    attempts.is_unchanged()
    attempts.changes_with(writes(sessions, update(Attempt).values(claimed_at=func.now())))
    assert events.is_unchanged()


def test_the_tags_of_analysis_and_advice_are_stable_after_the_end_of_the_job(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    analysis, advice = (Poll(api, f"/v1/jobs/{running.job_id}/{what}") for what in ("analysis", "advice"))
    end_attempt(sessions, running, releases=False)
    analysis.full()  # its slots were leased for so long: that stands still from now on
    assert not analysis.is_unchanged()
    assert analysis.is_unchanged()
    assert advice.is_unchanged()


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
        starting_rows.an_attempt(sessions, jobs[1])
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
