"""Whoever may not do a thing now may not do it by what they began. `rights/table.py` says what they may request."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Job, Token, WebhookDelivery
from jobs.lifecycle.store import request_cancel
from jobs.model.states import EndReason, Status
from jobs.outward.webhooks import outbox
from jobs.outward.webhooks.messages import body_of
from jobs.outward.webhooks.outbox import Claimed
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from jobs.scheduling.placement_rows import next_page
from tests.integration.api.answers import problem
from tests.integration.api.starting_rows import SPEC, a_host
from tests.integration.jobs.writing import change, write

ClientOf = Callable[..., TestClient]
IN_VISION = SPEC | {"project": "vision"}
URL = "https://ci.example.com/hook"


def refusal(answer: Any) -> str:
    """What a 403 says."""
    return str(problem(answer, 403, "forbidden")["detail"])


@pytest.fixture
def alice(api: TestClient, client_of: ClientOf) -> TestClient:
    """A member of the closed project `vision`."""
    alice = client_of("alice")
    api.post("/v1/projects", json={"name": "vision", "is_open": False})
    joins(api)
    return alice


def joins(api: TestClient) -> None:
    assert api.put("/v1/projects/vision/members/alice").status_code == 200


def leaves(api: TestClient) -> None:
    assert api.delete("/v1/projects/vision/members/alice").status_code == 204


def is_disabled(api: TestClient, *, disabled: bool = True) -> None:
    assert api.patch("/v1/users/alice", json={"disabled": disabled}).status_code == 200


def changes_token(sessions: Sessions, user: str = "alice", **values: Any) -> None:
    change(sessions, update(Token).where(Token.user_name == user).values(values))


def placeable(sessions: Sessions) -> list[str]:
    """The jobs that the dispatcher takes from the queue."""
    with sessions() as session:
        return [job.job_id for job in next_page(session, None, limit=10).jobs]


def place(sessions: Sessions, job_id: str) -> bool:
    with sessions.begin() as session:
        return bool(placing.place(session, [Placement(job_id, (Share("ha", (0, 1)),))], lease_s=60))


def claim(sessions: Sessions) -> Claimed | None:
    return write(sessions, outbox.claim, lease_s=60)


@pytest.mark.parametrize("way", ["leaves", "disabled"])
def test_a_queued_job_waits_while_its_owner_may_not_submit(
    api: TestClient, alice: TestClient, sessions: Sessions, way: str
) -> None:
    a_host(sessions)
    job_id = alice.post("/v1/jobs", json=IN_VISION).json()["id"]
    other_id = api.post("/v1/jobs", json=SPEC).json()["id"]
    before = api.get(f"/v1/jobs/{job_id}")
    assert placeable(sessions) == [job_id, other_id]
    is_disabled(api) if way == "disabled" else leaves(api)

    assert placeable(sessions) == [other_id]
    assert not place(sessions, job_id)  # not even by a dispatcher that read the queue before
    after = api.get(f"/v1/jobs/{job_id}", headers={"If-None-Match": before.headers["ETag"]})
    why = {"disabled": "its owner alice is disabled"}.get(
        way, "the project vision is closed, and its owner alice is no member"
    )
    assert after.json()["waiting"] == {"position": None, "reason": why, "starts_in_s": None}
    assert api.get(f"/v1/jobs/{other_id}").json()["waiting"]["position"] == 1
    resumed = refusal(api.post(f"/v1/jobs/{job_id}/resume"))
    assert resumed == f"job {job_id} cannot be resumed: {why}; submit it again as your own"
    is_disabled(api, disabled=False) if way == "disabled" else joins(api)
    assert placeable(sessions) == [job_id, other_id]
    assert place(sessions, job_id)
    is_disabled(api)
    assert api.get(f"/v1/jobs/{job_id}").json()["status"] == "launching", "what runs goes on"
    with sessions.begin() as session:  # its host is lost: it goes back to the queue
        session.execute(update(Job).where(Job.id == job_id).values(status=Status.QUEUED))
    assert placeable(sessions) == [other_id]
    assert api.post(f"/v1/jobs/{job_id}/cancel").json()["end_reason"] == EndReason.CANCELLED


def test_a_queued_job_goes_on_where_its_owner_may_still_submit(
    api: TestClient, client_of: ClientOf, alice: TestClient, sessions: Sessions
) -> None:
    of_member = alice.post("/v1/jobs", json=IN_VISION).json()["id"]
    of_admin = client_of("ann", "admin").post("/v1/jobs", json=IN_VISION).json()["id"]
    assert placeable(sessions) == [of_member, of_admin]
    changes_token(sessions, expires_at=func.now())  # a token for one night is enough for a long queue
    assert placeable(sessions) == [of_member, of_admin]
    leaves(api)
    assert placeable(sessions) == [of_admin]
    api.patch("/v1/projects/vision", json={"is_open": True})
    assert placeable(sessions) == [of_member, of_admin]
    api.patch("/v1/projects/vision", json={"is_open": False})
    changes_token(sessions, "ann", revoked_at=func.now())
    assert placeable(sessions) == []


@pytest.mark.parametrize("way", ["leaves", "disabled", "loses its scope", "expired"])
def test_a_webhook_sends_only_while_its_owner_may_have_it(
    api: TestClient, alice: TestClient, sessions: Sessions, way: str
) -> None:
    webhook = alice.post("/v1/webhooks", json={"url": URL, "project": "vision"}).json()
    named = IN_VISION | {"name": "=訓練 <b>", "labels": {"team": "Zoë"}}
    job_ids = [api.post("/v1/jobs", json=named).json()["id"] for _ in range(2)]
    own_id = alice.post("/v1/jobs", json=IN_VISION).json()["id"]
    write(sessions, request_cancel, job_ids[0])
    sent = claim(sessions)
    assert sent is not None
    message = json.loads(body_of(sent.payload))["job"]
    assert (message["id"], message["name"], message["labels"]) == (job_ids[0], "=訓練 <b>", {"team": "Zoë"})
    ways: dict[str, Callable[[], None]] = {
        "leaves": lambda: leaves(api), "disabled": lambda: is_disabled(api),
        "loses its scope": lambda: changes_token(sessions, scope="read"),
        "expired": lambda: changes_token(sessions, expires_at=func.now()),
    }  # fmt: skip
    ways[way]()
    with sessions.begin() as session:
        session.execute(update(WebhookDelivery).values(next_at=func.now()))  # it is due again
        request_cancel(session, job_ids[1])

    why = {
        "leaves": "its owner alice is no member of the project vision",
        "disabled": "its owner alice is disabled",
    }.get(way, "its owner alice has no valid token with the scope submit")
    assert claim(sessions) is None
    with sessions() as session:
        assert set(session.scalars(select(WebhookDelivery.error))) == {why}
    path = f"/v1/webhooks/{webhook['id']}"
    for asked in (
        api.post(f"{path}/test"),
        api.post(f"{path}/deliveries/{sent.id}/redeliver"),
        api.patch(path, json={"disabled": False}),
    ):
        assert refusal(asked) == f"webhook {webhook['id']} gets no messages: {why}"
    assert claim(sessions) is None
    assert api.patch(path, json={"disabled": True}).status_code == 200
    if way == "leaves":
        assert alice.post("/v1/webhooks", json={"url": URL}).status_code == 201
        write(sessions, request_cancel, own_id)
        assert claim(sessions) is not None, "for one's own jobs no project is needed"
