"""A script that only sleeps, under real horovodrun: it is warned of by its real samples, and then paused."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import delete, func, insert, select, update

from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, IdleStretch, Job, Sample
from jobs.telemetry import idle_watch
from tests.acceptance.conftest import ended, kinds, no_process_left, submit_script
from tests.integration.jobs.writing import change
from tests.stored_runs import sessions_on
from tests.waiting import until

SCRIPT = """
import time
print("asleep", flush=True)
time.sleep(3600)
"""
WHY = "its 2 CPU slots were below 50 % for 1 minute"


@pytest.fixture(scope="module")
def sessions_there(stack: Stack) -> Iterator[Sessions]:
    with sessions_on(stack.database_url) as sessions:
        yield sessions


def half_a_minute_earlier(sessions: Sessions, job_id: str) -> None:
    """Make it so that the ranks have slept for 35 seconds: what is measured from now on goes on from there."""
    with sessions.begin() as session:
        session.execute(select(func.pg_advisory_xact_lock(idle_watch.LOCK)))  # no look is under way
        now: datetime = session.execute(select(func.clock_timestamp())).scalar_one()
        session.execute(delete(IdleStretch))
        session.execute(delete(Sample).where(Sample.job_id == job_id))
        began_at = now - timedelta(seconds=35)
        of_job = update(Attempt).where(Attempt.job_id == job_id)
        session.execute(of_job.values(created_at=began_at, started_at=began_at))
        idle = {"job_id": job_id, "attempt": 1, "host": "earlier", "cpu_percent": 0.0}
        times = [now - timedelta(seconds=seconds) for seconds in range(1, 35, 2)]
        session.execute(insert(Sample), [idle | {"rank": one, "slot": one, "at": at} for at in times for one in (0, 1)])


def has_come(sessions: Sessions, job_id: str) -> None:
    """Make it so that the time of which the job was warned has come."""
    acts_at = func.jsonb_build_object("acts_at", datetime.now(UTC).isoformat())
    change(sessions, update(Job).where(Job.id == job_id).values(idle=Job.idle.op("||")(acts_at)))


def test_a_script_that_sleeps_is_warned_and_paused(stack: Stack, sessions_there: Sessions, client: Service) -> None:
    job_id = submit_script(stack, SCRIPT, gpus=2, idle={"below": 50, "for_s": 60, "action": "pause"})
    until(lambda: all(client.logs(job_id, rank=rank, search="asleep")["items"] for rank in (0, 1)), what="both ranks")
    half_a_minute_earlier(sessions_there, job_id)
    until(lambda: client.job(job_id).get("idle") is not None, what="a warning")
    warning = client.job(job_id)["idle"]
    assert (warning["action"], warning["acted_at"], warning["below"]) == ("pause", None, 50)
    assert warning["why"] == "its 2 CPU slots are used less than 50 %"
    assert client.job(job_id)["status"] == "running", "it is warned first"
    has_come(sessions_there, job_id)
    until(lambda: client.job(job_id)["status"] == "queued", what="the pause")
    job = client.job(job_id)
    assert job["paused_at"] is not None
    assert (job["idle"]["why"], job["waiting"]["position"]) == (WHY, None)
    (attempt,) = client.attempts(job_id)
    assert (attempt["end_reason"], attempt["error"]) == ("paused", WHY)
    assert {"idle_warned", "idle_acted", "attempt_ended"} <= set(kinds(client, job_id))
    no_process_left(client, job_id)
    client.resume(job_id)
    assert client.job(job_id)["idle"] is None
    client.cancel(job_id)
    assert ended(client, job_id)["end_reason"] == "cancelled"
