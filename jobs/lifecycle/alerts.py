"""Stores the alerts of a job: in its history, on its row, and out to webhooks. Called by the intake of an attempt.

It works in the caller's fenced transaction; the caller commits. The history is the only memory, so that no alert is
lost with a process, and none comes twice.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import insert, select
from sqlalchemy.orm import Session

from jobs.db.storable import storable
from jobs.db.tables import Job, JobEvent
from jobs.lifecycle.deliveries import add_alert_deliveries
from jobs.lifecycle.store import Lease, touch
from jobs.model.alerts import Alert, kept
from jobs.model.states import EventKind


def add_alerts(session: Session, lease: Lease, wanted: Sequence[Alert]) -> list[Alert]:
    """Store those of the wanted alerts that the job still gets, and return them."""
    if not (alerts := kept(wanted, _stored(session, lease.job_id))):
        return []
    rows = [_event(lease, alert) for alert in alerts]
    ids = session.scalars(insert(JobEvent).returning(JobEvent.id, sort_by_parameter_order=True), rows).all()
    last = {"at": rows[-1]["at"].isoformat(), **rows[-1]["data"]}
    touch(session, lease.job_id, alerts=Job.alerts + len(alerts), last_alert=last)
    add_alert_deliveries(session, lease.job_id, ids)
    return alerts


def _event(lease: Lease, alert: Alert) -> dict[str, Any]:
    at = datetime.fromtimestamp(alert.at, UTC)
    kind, data = EventKind.ALERT, storable(alert.data)
    return {"job_id": lease.job_id, "kind": kind, "attempt": lease.number, "at": at, "data": data}


def _stored(session: Session, job_id: str) -> list[Alert]:
    query = select(JobEvent.at, JobEvent.data).where(JobEvent.job_id == job_id, JobEvent.kind == EventKind.ALERT)
    return [Alert(row.at.timestamp(), **row.data) for row in session.execute(query.order_by(JobEvent.id))]
