"""A delivery is written with the end that it reports, once for each subscribed webhook, and settled once."""

import json
import threading
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, MailHour, Project, ProjectMember, User, Webhook, WebhookDelivery
from jobs.insight.studies import control
from jobs.lifecycle import leases
from jobs.lifecycle.deliveries import JOB_ENDED, STUDY_ENDED
from jobs.lifecycle.store import request_cancel
from jobs.model.scopes import Scope
from jobs.model.states import EndReason, Status
from jobs.outward.webhooks import outbox, store
from jobs.outward.webhooks.outbox import Claimed
from jobs.outward.webhooks.retries import Answer, Verdict
from jobs.people.project_admission import Applicant
from jobs.people.tokens import store_token
from tests.integration.jobs import job_rows
from tests.integration.jobs.test_races import at_once
from tests.integration.jobs.writing import write


def a_webhook(
    sessions: Sessions,
    *,
    owner: str = "me",
    events: Sequence[str] = (JOB_ENDED, STUDY_ENDED),
    project: str | None = None,
    **fields: str,
) -> str:
    with sessions.begin() as session:
        store_token(session, f"hora_{owner}", user=owner, scope=Scope.SUBMIT)
        if project is not None:
            session.merge(ProjectMember(project=project, user_name=owner))
        fields = {"url": "https://x.example.com/"} | fields
        return store.create(session, owner=owner, events=events, project=project, **fields).id


def end_studies(sessions: Sessions) -> list[str]:
    return write(sessions, outbox.end_studies)


def stored_deliveries(sessions: Sessions) -> list[tuple[str, str, str]]:
    with sessions() as session:
        rows = session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id))
        return [(row.webhook_id, row.event, row.subject_id) for row in rows]


def claim(sessions: Sessions, *, lease_s: float = 60, besides: Sequence[str] = ()) -> Claimed | None:
    return write(sessions, outbox.claim, lease_s=lease_s, besides=besides)


def claimed_end(sessions: Sessions) -> Claimed:
    """The delivery of the end of a new job, claimed."""
    job_rows.cancel(sessions, job_rows.a_job(sessions, name="first"))
    claimed = claim(sessions)
    assert claimed is not None
    return claimed


def settle(sessions: Sessions, claimed: Claimed, answer: Answer) -> Verdict | None:
    return write(sessions, outbox.settle, claimed, answer, jitter=0)


def messages(sessions: Sessions) -> list[dict[str, Any]]:
    """The messages of all deliveries, as they are sent."""
    return [json.loads(json.dumps(one.payload)) for one in iter(lambda: claim(sessions, lease_s=600), None)]


def the_delivery(sessions: Sessions) -> WebhookDelivery:
    with sessions() as session:
        return session.scalars(select(WebhookDelivery)).one()


def test_an_end_is_sent_to_each_webhook_that_subscribes_to_it_and_to_no_other(sessions: Sessions) -> None:
    own = a_webhook(sessions)
    with sessions.begin() as session:
        session.add(Project(name="vision"))
    a_webhook(sessions, owner="another")
    a_webhook(sessions, events=[STUDY_ENDED])
    a_webhook(sessions, owner="another", project="vision")
    of_project = a_webhook(sessions, owner="another", project="default")
    disabled, deleted, of_nobody = a_webhook(sessions), a_webhook(sessions), a_webhook(sessions, owner="left")
    with sessions.begin() as session:
        store.set_disabled(session, session.get_one(Webhook, disabled), True)
        store.remove(session, session.get_one(Webhook, deleted))
        session.execute(update(User).where(User.name == "left").values(disabled_at=func.now()))
        session.execute(update(Webhook).where(Webhook.id == of_nobody).values(project="default"))
    job_rows.a_job_that_is(sessions, Status.RUNNING)
    done = job_rows.a_job_that_is(sessions, Status.SUCCEEDED)
    assert sorted(stored_deliveries(sessions)) == sorted([(own, JOB_ENDED, done), (of_project, JOB_ENDED, done)])


def test_every_kind_of_end_is_sent_once_and_a_restart_or_what_is_rolled_back_is_not(sessions: Sessions) -> None:
    webhook = a_webhook(sessions)
    lease = job_rows.a_running_attempt(sessions)
    with sessions() as session:
        leases.end(session, lease, EndReason.COMPLETED)
        session.rollback()
    job_rows.end_attempt(sessions, lease, EndReason.HOST_LOST)
    assert job_rows.the_job(sessions, lease.job_id).status is Status.QUEUED
    assert stored_deliveries(sessions) == []
    ended = []
    for reason in (EndReason.COMPLETED, EndReason.BAD_DATA, EndReason.CANCELLED):
        lease = job_rows.a_running_attempt(sessions)
        if reason is EndReason.CANCELLED:
            job_rows.cancel(sessions, lease.job_id)
        job_rows.end_attempt(sessions, lease, reason)
        ended.append(lease.job_id)
    assert stored_deliveries(sessions) == [(webhook, JOB_ENDED, job_id) for job_id in ended]


def test_the_cancel_of_a_study_sends_the_end_of_every_job_and_then_of_the_study_and_once_more_if_it_is_resumed(
    sessions: Sessions,
) -> None:
    webhook = a_webhook(sessions)
    study_id, job_ids = job_rows.a_study(sessions, jobs=3)
    assert end_studies(sessions) == []
    write(sessions, control.request_cancel, study_id)
    assert end_studies(sessions) == [study_id]
    assert end_studies(sessions) == []
    deliveries = stored_deliveries(sessions)
    assert set(deliveries[:3]) == {(webhook, JOB_ENDED, job_id) for job_id in job_ids}
    assert deliveries[3:] == [(webhook, STUDY_ENDED, study_id)]
    with sessions.begin() as resuming:  # it holds the row of the study, and its new jobs are not visible yet
        control.resume(resuming, study_id, by=Applicant("ada"))
        assert end_studies(sessions) == []
    assert end_studies(sessions) == []
    write(sessions, control.request_cancel, study_id)
    assert end_studies(sessions) == [study_id]
    assert stored_deliveries(sessions).count((webhook, STUDY_ENDED, study_id)) == 2


def test_a_study_ends_once_when_its_last_two_jobs_end_at_once(sessions: Sessions) -> None:
    webhook = a_webhook(sessions)
    study_id, job_ids = job_rows.a_study(sessions)
    both_have_ended = threading.Barrier(4)

    def end(job_id: str) -> None:
        with sessions.begin() as session:
            request_cancel(session, job_id)
            both_have_ended.wait(120)

    def look() -> None:
        both_have_ended.wait(120)
        for _ in range(20):
            end_studies(sessions)

    at_once([*(lambda job_id=job_id: end(job_id) for job_id in job_ids), look, look])
    end_studies(sessions)
    deliveries = stored_deliveries(sessions)
    assert sorted(deliveries[:2]) == sorted((webhook, JOB_ENDED, job_id) for job_id in job_ids)
    assert deliveries[2:] == [(webhook, STUDY_ENDED, study_id)]


def test_a_delivery_belongs_to_one_sender_and_is_due_again_after_a_pause_or_when_its_lease_expires(
    sessions: Sessions,
) -> None:
    a_webhook(sessions)
    first = claimed_end(sessions)
    assert (first.attempt, first.event, first.payload["job"]["name"]) == (1, JOB_ENDED, "first")
    assert claim(sessions) is None
    assert settle(sessions, first, Answer(429, retry_after="100")) is Verdict.AGAIN
    row = the_delivery(sessions)
    assert (row.status_code, row.error, row.delivered_at) == (429, "the receiver answered with status 429", None)
    with sessions() as session:
        pause = session.scalar(select(WebhookDelivery.next_at - func.now()))
    assert timedelta(seconds=90) < pause <= timedelta(seconds=100)
    assert claim(sessions) is None
    with sessions.begin() as session:  # the pause is over, or the sender died
        session.execute(update(WebhookDelivery).values(next_at=func.now()))
        session.execute(update(Job).values(name="another"))
    second = claim(sessions)
    assert second is not None
    assert (second.id, second.attempt, second.payload) == (first.id, 2, first.payload)
    assert settle(sessions, first, Answer(503)) is None  # it was only slow, and is late
    assert settle(sessions, second, Answer(204)) is Verdict.DELIVERED
    row = the_delivery(sessions)
    assert (row.attempts, row.next_at, row.status_code, row.error) == (2, None, 204, None)
    assert row.delivered_at is not None


def test_a_claim_skips_webhooks_that_are_being_sent_to(sessions: Sessions) -> None:
    a_webhook(sessions), a_webhook(sessions, owner="another", project="default")
    first = claimed_end(sessions)
    job_rows.cancel(sessions, job_rows.a_job(sessions, name="second"))
    second = claim(sessions, besides=[first.webhook_id])
    assert second is not None
    assert first.webhook_id != second.webhook_id
    assert [first.payload["job"]["name"], second.payload["job"]["name"]] == ["first", "first"]
    assert claim(sessions, besides=[first.webhook_id, second.webhook_id]) is None


def state(sessions: Sessions, webhook_id: str) -> tuple[bool, list[str | None]]:
    """Whether a webhook is disabled, and why each delivery was given up."""
    with sessions() as session:
        rows = session.scalars(select(WebhookDelivery).order_by(WebhookDelivery.id)).all()
        assert all(row.delivered_at is None and row.next_at is None for row in rows)
        return session.get_one(Webhook, webhook_id).disabled_at is not None, [row.error for row in rows]


def test_a_webhook_whose_receiver_is_gone_is_disabled_and_its_deliveries_given_up(sessions: Sessions) -> None:
    webhook = a_webhook(sessions)
    claimed = claimed_end(sessions)
    job_rows.cancel(sessions, job_rows.a_job(sessions))
    assert settle(sessions, claimed, Answer(410)) is Verdict.GONE
    assert state(sessions, webhook) == (
        True,
        ["the receiver answered with status 410", "the receiver answered 410 Gone"],
    )


def test_a_delivery_of_a_webhook_disabled_meanwhile_is_not_tried_again(sessions: Sessions) -> None:
    webhook = a_webhook(sessions)
    claimed = claimed_end(sessions)
    with sessions.begin() as session:
        store.set_disabled(session, session.get_one(Webhook, webhook), True)
    assert settle(sessions, claimed, Answer(503)) is None
    assert state(sessions, webhook) == (True, ["the webhook was disabled"])
    write(sessions, outbox.add_ping, webhook)  # written by an end that did not see it disabled
    assert claim(sessions) is None
    assert state(sessions, webhook)[1] == ["the webhook was disabled", "the webhook was disabled or deleted"]


def test_a_deleted_webhook_loses_its_secret_and_is_later_removed_with_its_deliveries(sessions: Sessions) -> None:
    remaining, deleted = a_webhook(sessions), a_webhook(sessions)
    with sessions.begin() as session:
        for webhook_id in (remaining, deleted):
            outbox.add_ping(session, webhook_id)
        webhook = session.get_one(Webhook, deleted)
        assert webhook.secret
        store.remove(session, webhook)
        assert webhook.secret == ""
        session.execute(update(WebhookDelivery).values(created_at=func.now() - timedelta(days=31)))
        session.execute(update(Webhook).values(deleted_at=Webhook.deleted_at - timedelta(days=31)))
    for _ in range(3):
        write(sessions, outbox.remove_old, keep_days=30)
    with sessions() as session:
        assert session.scalars(select(Webhook.id)).all() == [remaining]
        assert session.scalars(select(WebhookDelivery.webhook_id)).all() == [remaining]  # it still waits
        assert outbox.counts(session) == outbox.Counts(pending=1, failed=0)


def some_mail(sessions: Sessions, owner: str = "me") -> str:
    """A webhook that sends mail, and a ping for it."""
    webhook_id = a_webhook(sessions, owner=owner, url="mailto:a@example.org", format_="mail")
    write(sessions, outbox.add_ping, webhook_id)
    return webhook_id


def test_mail_beyond_that_of_an_hour_waits_for_the_next_one(sessions: Sessions) -> None:
    for _ in range(4):
        some_mail(sessions)
    of_another = some_mail(sessions, "another")

    def claim_mail() -> Claimed | None:
        return write(sessions, outbox.claim, lease_s=3600, mails_per_hour=2)

    claimed = [one for one in iter(claim_mail, None) if one.webhook_id != of_another]
    assert len(claimed) == 2
    with sessions() as session:
        waiting = session.scalars(select(WebhookDelivery).where(WebhookDelivery.attempts == 0)).all()
        next_hour = session.scalar(select(func.date_trunc("hour", func.now()) + timedelta(hours=1)))
        assert [row.next_at for row in waiting] == [next_hour, next_hour]
        assert waiting[0].error == "waits for the next hour: me's webhooks may send 2 mails an hour"
    with sessions.begin() as session:  # the next hour begins
        session.execute(update(MailHour).values(hour=MailHour.hour - timedelta(hours=1)))
        session.execute(update(WebhookDelivery).where(WebhookDelivery.attempts == 0).values(next_at=func.now()))
    assert claim_mail() is not None
    with sessions.begin() as session:
        outbox.remove_old(session, keep_days=30)
        assert session.scalars(select(MailHour.mails)).all() == [1]


def test_concurrent_requests_do_not_exceed_the_webhooks_of_an_owner(sessions: Sessions) -> None:
    for _ in range(store.MAX_OF_AN_OWNER - 1):
        a_webhook(sessions)

    def ask() -> bool:
        try:
            a_webhook(sessions)
        except store.TooManyWebhooks:
            return False
        return True

    assert sorted(at_once([ask] * 3)) == [False, False, True]
    assert job_rows.count(sessions, Webhook) == store.MAX_OF_AN_OWNER
    a_webhook(sessions, owner="another")
