"""Alerts of scripts: stored once, whoever reads them, in the history, on the job, and for webhooks."""

import json
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text
from sqlalchemy.exc import ProgrammingError

from jobs.db.engine import Sessions
from jobs.db.tables import JobEvent, WebhookDelivery
from jobs.intake.intake import Intake
from jobs.lifecycle import leases
from jobs.lifecycle.deliveries import JOB_ALERT, JOB_ENDED
from jobs.lifecycle.leases import StaleLease
from jobs.lifecycle.store import Lease
from jobs.model.alerts import MOST_A_MINUTE
from jobs.model.records import Alerted
from jobs.model.states import EndReason, EventKind
from jobs.outward.webhooks import outbox
from tests.integration.jobs import job_rows
from tests.integration.jobs.intake.rank_files import step_ended, write
from tests.integration.jobs.test_outbox import a_webhook
from worker.attempt.leftovers import store_leftovers
from worker.attempt.paths import AttemptPaths


def said(title: str, at: float = 100.0, **fields: Any) -> Alerted:
    return Alerted(at=at, level=fields.pop("level", "info"), title=title, **fields)


def stored(sessions: Sessions) -> list[dict[str, Any]]:
    with sessions() as session:
        query = select(JobEvent.data).where(JobEvent.kind == EventKind.ALERT).order_by(JobEvent.id)
        return list(session.scalars(query))


def messages(sessions: Sessions) -> list[dict[str, Any]]:
    payloads = []
    while True:
        with sessions.begin() as session:
            claimed = outbox.claim(session, lease_s=600)
        if claimed is None:
            return payloads
        payloads.append(json.loads(json.dumps(claimed.payload)))


def test_alerts_of_all_ranks_are_events_figures_of_the_job_and_messages(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    hook = a_webhook(sessions, events=[JOB_ALERT])
    a_webhook(sessions, owner="other", events=[JOB_ALERT])
    a_webhook(sessions, events=[JOB_ENDED])
    hostile = "<!channel> \x00 [x](https://evil.example)\nBcc: a@b"
    write(paths, 0, said("slow", text=hostile, level="error"))
    write(paths, 1, said("slow", at=100.5, wait_s=60.0), said("other", at=101.0))
    intake.store_new()
    first = {"level": "error", "title": "slow", "text": hostile.replace("\x00", "\ufffd"), "rank": 0}
    second = {"level": "info", "title": "other", "text": "", "rank": 1}
    assert stored(sessions) == [first, second]
    job = job_rows.the_job(sessions, lease.job_id)
    assert (job.alerts, job.last_alert) == (2, {"at": "1970-01-01T00:01:41+00:00", **second})
    sent = messages(sessions)
    assert [(one["event"], one["webhook"], one["job"]["id"]) for one in sent] == [(JOB_ALERT, hook, lease.job_id)] * 2
    assert [one["alert"] for one in sent] == [
        {"at": "1970-01-01T00:01:40+00:00", "attempt": 1, **first},
        {"at": "1970-01-01T00:01:41+00:00", "attempt": 1, **second},
    ]
    assert intake.steps_seen == 0  # an alert is no sign of life


def test_a_flood_is_bounded_over_batches_and_attempts(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake
) -> None:
    for part in range(4):
        write(paths, part % 2, *(said(f"n{part} {number}") for number in range(5)))
        intake.store_new()
    titles = [one["title"] for one in stored(sessions)]
    assert len(titles) == MOST_A_MINUTE + 1
    assert [one.get("left_out", False) for one in stored(sessions)] == [False] * MOST_A_MINUTE + [True]
    write(paths, 0, said("a minute later", at=160.0))
    Intake(sessions, lease, paths, ranks=2).store_new()  # another reader knows what was stored
    assert [one["title"] for one in stored(sessions)][MOST_A_MINUTE + 1 :] == ["a minute later"]


def test_a_batch_that_failed_alerts_once(sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake) -> None:
    a_webhook(sessions, events=[JOB_ALERT])
    write(paths, 0, said("slow"), step_ended(1))
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE webhook_deliveries RENAME TO away"))
    with pytest.raises(ProgrammingError):
        intake.store_new()
    assert (stored(sessions), job_rows.the_job(sessions, lease.job_id).alerts) == ([], 0)
    with sessions.begin() as session:
        session.execute(text("ALTER TABLE away RENAME TO webhook_deliveries"))
    intake.store_new()
    assert len(stored(sessions)) == job_rows.the_job(sessions, lease.job_id).alerts == 1
    with sessions() as session:
        assert len(session.scalars(select(WebhookDelivery)).all()) == 1


def test_what_a_fenced_attempt_said_is_stored_once_by_the_next_one(
    sessions: Sessions, lease: Lease, paths: AttemptPaths, intake: Intake, tmp_path: Path
) -> None:
    write(paths, 0, said("before"))
    intake.store_new()
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.LEASE_EXPIRED)
        leases.release(session, lease.attempt_id)
    write(paths, 0, said("late"))
    with pytest.raises(StaleLease):
        intake.store_new()
    assert len(stored(sessions)) == 1
    later = job_rows.an_attempt(sessions, lease.job_id)
    with sessions.begin() as session:
        leases.claim(session, later.attempt_id, lease_s=60)
    for _ in range(2):
        store_leftovers(sessions, later, tmp_path, meanwhile=lambda: None)
    assert [one["title"] for one in stored(sessions)] == ["before", "late"]
    with sessions() as session:
        attempts = session.scalars(select(JobEvent.attempt).where(JobEvent.kind == EventKind.ALERT)).all()
    assert attempts == [1, 1]
    assert job_rows.the_job(sessions, lease.job_id).alerts == 2
