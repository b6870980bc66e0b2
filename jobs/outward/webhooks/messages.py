"""The messages of webhooks, and their signatures. Used by `outbox` and the sender; reads nothing but its arguments.

A message is stored once, as `payload_of` makes it. `formats` makes of it what its receiver reads.
"""

import hashlib
import hmac
import json
import secrets
from collections.abc import Mapping
from typing import Any

from jobs.db.tables import Job, Study, Webhook, WebhookDelivery
from jobs.model.goals import goal_metric
from jobs.model.spec_parts import GoalSpec

PING = "ping"


def new_secret() -> str:
    """A new random secret."""
    return f"hora_whsec_{secrets.token_urlsafe(32)}"


def body_of(document: dict[str, Any]) -> bytes:
    """A message as bytes, the same at every try."""
    return json.dumps(document, sort_keys=True, separators=(",", ":")).encode()


def signature(secret: str, timestamp: int, body: bytes) -> str:
    """HMAC-SHA256 over `timestamp.body`. It proves the origin and the time to everyone who has the secret."""
    digest = hmac.new(secret.encode(), f"{timestamp}.".encode() + body, hashlib.sha256)
    return f"v1={digest.hexdigest()}"


def headers_of(delivery_id: int, event: str, secret: str, timestamp: int, body: bytes) -> dict[str, str]:
    """The headers of a delivery."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "hora-webhooks",
        "Hora-Event": event,
        "Hora-Delivery": str(delivery_id),
        "Hora-Timestamp": str(timestamp),
        "Hora-Signature": signature(secret, timestamp, body),
    }


def payload_of(
    delivery: WebhookDelivery,
    webhook: Webhook,
    subject: Job | Study | None,
    *,
    counts: dict[str, int],
    more: Mapping[str, Any] = {},
    base_url: str,
) -> dict[str, Any]:
    """The message of a delivery. `counts` are a study's jobs by status.

    `more` has `idle`, the notice about a job's slots, or `alert`.
    """
    payload: dict[str, Any] = {
        "event": delivery.event,
        "delivery": delivery.id,
        "webhook": webhook.id,
        "at": delivery.created_at.isoformat(),
    }
    match subject:
        case Job():
            payload["job"] = _job(subject, base_url)
        case Study():
            payload["study"] = _study(subject, counts, base_url)
        case None:
            pass
    return payload | {name: value for name, value in more.items() if value is not None}


def _job(job: Job, base_url: str) -> dict[str, Any]:
    at = f"{base_url}/v1/jobs/{job.id}"
    return {
        "id": job.id,
        "name": job.name,
        "owner": job.owner,
        "project": job.project,
        "study": job.study_id,
        "status": job.status.value,
        "end_reason": None if job.end_reason is None else job.end_reason.value,
        "error": job.error,
        "summary": job.summary,
        "goal": _goal(job),
        "gpus": job.gpus,
        "gpu_hours": job.slot_seconds / 3600,
        "labels": job.labels,
        "created_at": job.created_at.isoformat(),
        "started_at": None if job.started_at is None else job.started_at.isoformat(),
        "ended_at": None if job.ended_at is None else job.ended_at.isoformat(),
        "urls": {
            "self": at, "logs": f"{at}/logs", "artifacts": f"{at}/artifacts", "page": f"{base_url}/jobs/{job.id}",
        },
    }  # fmt: skip


def _goal(job: Job) -> dict[str, Any] | None:
    """The metric that says how good the job is, with its best value; None if nothing was measured."""
    spec_goal = job.spec.get("goal")
    name = goal_metric(None if spec_goal is None else GoalSpec.model_validate(spec_goal), job.metrics)
    values = job.metrics.get(name or "")
    return None if values is None else {"metric": name, "best": values["best"], "best_epoch": values.get("best_epoch")}


def _study(study: Study, counts: dict[str, int], base_url: str) -> dict[str, Any]:
    at = f"{base_url}/v1/studies/{study.id}"
    return {
        "id": study.id,
        "name": study.name,
        "owner": study.owner,
        "project": study.project,
        "counts": counts,
        "created_at": study.created_at.isoformat(),
        "ended_at": None if study.ended_at is None else study.ended_at.isoformat(),
        "urls": {"self": at, "report": f"{at}/report", "page": f"{base_url}/studies/{study.id}"},
    }
