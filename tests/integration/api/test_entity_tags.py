"""Entity tags: what has not changed is not sent again, and every write that changes an answer changes its tag."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import delete, func, update

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, Host, HostSample, Job, LogLine, Rollup, Slot
from jobs.lifecycle import leases, store
from jobs.lifecycle.store import Lease
from jobs.model.states import EndReason, EventKind
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from tests.integration.api.polls import Poll
from tests.integration.api.starting_rows import a_host, log_lines, metric_points, samples, seconds

Submit = Callable[..., str]


@pytest.fixture
def running(submit_job: Submit, sessions: Sessions) -> Lease:
    """A job that was placed on two slots."""
    a_host(sessions)
    job_id = submit_job(name="polled")
    with sessions.begin() as session:
        (lease,) = placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60)
    return lease


def offsets(sessions: Sessions, lease: Lease, to: int) -> None:
    """What an intake writes in the transaction in which it stores anything."""
    with sessions.begin() as session:
        session.execute(update(Attempt).where(Attempt.id == lease.attempt_id).values(offsets={"records:0": to}))


def test_the_tag_of_a_job_changes_with_its_content(api: TestClient, running: Lease, sessions: Sessions) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}")

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, running.job_id, progress={"epoch": 1})

    def end() -> None:
        with sessions.begin() as session:
            leases.end(session, running, EndReason.COMPLETED)

    for write in (progress, lambda: api.post(f"/v1/jobs/{running.job_id}/pause"), end):
        poll.changes_with(write)


def test_the_tag_of_a_list_changes_with_its_jobs_and_the_queue(
    api: TestClient, submit_job: Submit, running: Lease, sessions: Sessions
) -> None:
    everything, of_one, first = Poll(api, "/v1/jobs"), Poll(api, "/v1/jobs?name=polled"), Poll(api, "/v1/jobs?limit=1")

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, running.job_id, progress={"epoch": 1})

    everything.changes_with(progress)
    assert not of_one.is_unchanged()
    assert not first.is_unchanged()
    first.changes_with(lambda: submit_job(name="other"))  # it has the place of the one before, and there is a next page
    assert of_one.is_unchanged()
    assert not everything.is_unchanged()
    ahead = submit_job(name="ahead", priority=60)  # the queue moves: no row of the others changes
    of_other = Poll(api, "/v1/jobs?name=other")
    of_other.changes_with(lambda: api.post(f"/v1/jobs/{ahead}/cancel"))

    def lose_the_host() -> None:
        with sessions.begin() as session:
            session.execute(update(Host).values(heartbeat_at=seconds(-(10**9))))

    of_other.changes_with(lose_the_host)


def test_different_queries_have_different_tags(api: TestClient, running: Lease) -> None:
    for first_path, second_path in (
        ("/v1/jobs?limit=5", "/v1/jobs?limit=6"),
        ("/v1/jobs?sort=name", "/v1/jobs?sort=-name"),
        ("/v1/jobs", "/v1/jobs?project=default&status=launching"),
        (f"/v1/jobs/{running.job_id}/metrics", f"/v1/jobs/{running.job_id}/metrics?axis=time"),
        (f"/v1/jobs/{running.job_id}/utilization", f"/v1/jobs/{running.job_id}/utilization?axis=step"),
        (f"/v1/jobs/{running.job_id}/logs", f"/v1/jobs/{running.job_id}/logs?rank=1"),
        (f"/v1/jobs/{running.job_id}/events", f"/v1/jobs/{running.job_id}/events?limit=2"),
    ):
        tags = [api.get(path).headers["etag"] for path in (first_path, second_path)]
        assert tags[0] != tags[1]
        assert api.get(second_path, headers={"If-None-Match": tags[0]}).status_code == 200


def test_the_tag_of_metrics_changes_with_points_but_not_with_leases(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}/metrics")

    def store_points() -> None:
        metric_points(sessions, running.job_id, [(1, 0.5), (2, 0.4)])
        offsets(sessions, running, 10)

    def resume_elsewhere() -> None:  # what an attempt before it wrote beyond that is void
        with sessions.begin() as session:
            session.execute(update(Attempt).values(resumed_step=1))

    def start_the_clock() -> None:
        with sessions.begin() as session:
            store.touch(session, running.job_id, started_at=seconds(0))

    for write in (store_points, resume_elsewhere, start_the_clock):
        poll.changes_with(write)

    def renew() -> None:
        with sessions.begin() as session:
            session.execute(update(Attempt).values(lease_expires_at=func.now()))

    poll.stands_still_with(renew)


def test_series_have_no_stable_tag_while_they_are_thinned(api: TestClient, running: Lease, sessions: Sessions) -> None:
    with sessions.begin() as session:
        leases.end(session, running, EndReason.COMPLETED)
    polls = [Poll(api, f"/v1/jobs/{running.job_id}/{series}") for series in ("metrics", "utilization")]
    assert all(poll.is_unchanged() for poll in polls)
    with sessions.begin() as session:
        session.add(
            Rollup(
                job_id=running.job_id, source="metric", name="loss", rank=0, attempt=0, bin=0, first_at=seconds(0),
                last_at=seconds(1), count=2,
            )
        )  # fmt: skip
    assert not any(poll.is_unchanged() for poll in polls)
    assert not any(poll.is_unchanged() for poll in polls)
    with sessions.begin() as session:
        session.execute(update(Job).values(series_thinned_at=func.now(), revision=Job.revision + 1))
    assert not any(poll.is_unchanged() for poll in polls)
    assert all(poll.is_unchanged() for poll in polls)


def test_the_tag_of_utilization_changes_with_its_content(api: TestClient, running: Lease, sessions: Sessions) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}/utilization")
    poll.changes_with(lambda: samples(sessions, running.job_id, [{"cpu_percent": 50.0}, {"cpu_percent": 60.0}]))
    poll.changes_with(lambda: samples(sessions, running.job_id, [{"cpu_percent": 70.0}], rank=1))

    def give_it_memory() -> None:
        with sessions.begin() as session:
            session.execute(update(Slot).values(memory_bytes=2**30))

    def give_its_host_memory() -> None:
        with sessions.begin() as session:
            session.execute(update(Host).values(info={"memory_bytes": 2**34}))

    def epoch_ends() -> None:
        metric_points(sessions, running.job_id, [(4, 0.4)], rank=-1)
        offsets(sessions, running, 11)

    for write in (give_it_memory, give_its_host_memory, epoch_ends):
        poll.changes_with(write)
    with sessions.begin() as session:
        session.execute(update(Job).values(created_at=seconds(0)))
        session.add_all(HostSample(host="ha", at=seconds(at), cpu_percent=1.0) for at in (0, 1))
    assert not poll.is_unchanged()

    def remove_the_oldest() -> None:
        with sessions.begin() as session:
            session.execute(delete(HostSample).where(HostSample.at == seconds(0)))

    poll.changes_with(remove_the_oldest)


def test_the_tag_of_logs_changes_with_lines_but_not_with_progress(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    poll = Poll(api, f"/v1/jobs/{running.job_id}/logs")

    def store_lines() -> None:
        log_lines(sessions, running.job_id, [(0, "one"), (0, "two")])
        offsets(sessions, running, 12)

    def remove_some() -> None:
        with sessions.begin() as session:
            session.execute(delete(LogLine).where(LogLine.text == "one"))

    def progress() -> None:
        with sessions.begin() as session:
            store.touch(session, running.job_id, progress={"epoch": 3})

    poll.changes_with(store_lines)
    poll.changes_with(remove_some)
    poll.stands_still_with(progress)


def test_the_tags_of_events_and_attempts_change_with_their_content(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    events = Poll(api, f"/v1/jobs/{running.job_id}/events")
    cursor = api.get(f"/v1/jobs/{running.job_id}/events?limit=1").json()["next_cursor"]
    later = Poll(api, f"/v1/jobs/{running.job_id}/events?cursor={cursor}")
    attempts = Poll(api, f"/v1/jobs/{running.job_id}/attempts")

    def something_happens() -> None:
        with sessions.begin() as session:
            store.add_event(session, running.job_id, EventKind.FIRST_STEP)

    def claim() -> None:
        with sessions.begin() as session:
            session.execute(update(Attempt).values(claimed_at=func.now()))

    events.changes_with(something_happens)
    assert not later.is_unchanged()
    attempts.changes_with(claim)
    assert events.is_unchanged()


def test_a_tag_does_not_hide_an_unknown_id_or_a_wrong_query(api: TestClient) -> None:
    any_tag = {"If-None-Match": "*"}
    for part in ("", "/metrics", "/utilization", "/logs", "/events", "/attempts"):
        assert api.get(f"/v1/jobs/0000{part}", headers=any_tag).json()["type"] == "urn:hora:problem:job-not-found"
    for path in ("/v1/studies/0000", "/v1/studies/0000/report"):
        assert api.get(path, headers=any_tag).json()["type"] == "urn:hora:problem:study-not-found"
    assert api.get("/v1/jobs?cursor=x", headers=any_tag).status_code == 422
    assert api.get("/v1/jobs/0000?verbose=1", headers=any_tag).status_code == 422


def test_a_poll_needs_a_token_and_is_logged_like_any_request(api: TestClient, running: Lease) -> None:
    url = f"/v1/jobs/{running.job_id}"
    known = {"If-None-Match": api.get(url).headers["etag"]}
    answer = api.get(url, headers=known | {"X-Request-ID": "a-poll"})
    assert (answer.status_code, answer.headers["x-request-id"]) == (304, "a-poll")
    assert 'route="/v1/jobs/{job_id}",status="304"' in api.get("/metrics").text
    assert api.get(url, headers=known | {"Authorization": "Bearer hora_other"}).status_code == 401


def test_the_tags_of_analysis_and_advice_are_stable_after_the_end_of_the_job(
    api: TestClient, running: Lease, sessions: Sessions
) -> None:
    analysis, advice = (Poll(api, f"/v1/jobs/{running.job_id}/{what}") for what in ("analysis", "advice"))
    with sessions.begin() as session:
        leases.end(session, running, EndReason.COMPLETED)
    analysis.full()  # its slots were leased for so long: that stands still from now on
    assert not analysis.is_unchanged()
    assert analysis.is_unchanged()
    assert advice.is_unchanged()
