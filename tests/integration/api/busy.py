"""The rows of a busy cluster, as workers write them. For the tests of the api's metrics."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, null, update

from jobs.db.engine import Sessions
from jobs.db.tables import Host, Job, Project, Slot, Webhook, WebhookDelivery
from jobs.lifecycle.store import Lease
from jobs.runtime.space import FolderSpace
from jobs.scheduling import registration
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, HostSampleRow, MetricRow
from tests.integration.api.starting_rows import a_host
from tests.integration.jobs.job_rows import an_attempt
from tests.integration.jobs.writing import change, write

PROGRESS: dict[str, Any] = {
    "epoch": 3, "epochs": 10, "step": 25, "steps": 100, "eta_s": 42.5, "samples_per_s": 640.0,
    "metrics": {"loss": 0.5, "accuracy": 0.75, "val_loss": 0.625, "val_accuracy": 0.875},
}  # fmt: skip
READING = {"percent": 93.0, "memory_bytes": 2**30, "power_w": 310.5, "temperature_c": 61.0}


def a_live_attempt(sessions: Sessions, job_id: str, *, host: str = "hb", slots: tuple[int, ...] = (0,)) -> Lease:
    """Place a job. Returns the lease of its attempt."""
    return an_attempt(sessions, job_id, host=host, slots=slots)


def an_epoch(sessions: Sessions, lease: Lease, *, step: int, **values: float) -> None:
    """Store the values of an epoch over all ranks."""
    now = datetime.now(UTC)
    rows = [
        MetricRow(lease.job_id, name, ALL_RANKS, step, lease.number, 1, now, value) for name, value in values.items()
    ]
    write(sessions, ingest.store_metrics, rows)


def set_progress(sessions: Sessions, job_id: str, **progress: Any) -> None:
    """Set the progress of a job."""
    change(sessions, update(Job).where(Job.id == job_id).values(progress=progress))


def set_metrics(sessions: Sessions, job_id: str, **values: float) -> None:
    """Set the metrics that a job has so far."""
    metrics = {name: {"last": value, "best": value, "best_epoch": 1} for name, value in values.items()}
    change(sessions, update(Job).where(Job.id == job_id).values(metrics=metrics))


def host_sample(sessions: Sessions, host: str, *, age_s: float, **values: float) -> None:
    """Store a sample of a whole host that is `age_s` old."""
    at = datetime.now(UTC) - timedelta(seconds=age_s)
    row = HostSampleRow(host, at, values)
    write(sessions, ingest.store_host_samples, [row])


def readings(sessions: Sessions, host: str, **reading: Any) -> None:
    """Set the readings of a host's GPUs."""
    with sessions.begin() as session:
        changed = {"reading": {"at": datetime.now(UTC).isoformat(), **reading}, "memory_bytes": 2**35}
        session.execute(update(Slot).where(Slot.host == host).values(**changed))


def a_busy_cluster(sessions: Sessions, submit_job: Callable[..., str]) -> Lease:
    """A job in its third epoch on slots 0 and 1 of GPU host `hb`; a CPU host `ha`; quotas; webhook deliveries."""
    a_host(sessions, "ha")
    a_host(sessions, "hb", slots=4, kind="gpu")
    with sessions.begin() as session:
        session.execute(update(Host).values(info={"memory_bytes": 2**36}))
        for host in ("ha", "hb"):
            registration.beat(session, host, folders=[FolderSpace(("home", "runs"), 2**40, 10**9, 10**6, 10**4)])
    lease = a_live_attempt(sessions, submit_job(), slots=(0, 1))
    set_progress(sessions, lease.job_id, **PROGRESS)
    an_epoch(sessions, lease, step=10, epoch_s=3.0, data_wait_s=3.0, allreduce_s=3.0)
    an_epoch(sessions, lease, step=20, epoch_s=4.0, data_wait_s=1.0, allreduce_s=0.5)
    readings(sessions, "hb", **READING)
    for host in ("ha", "hb"):
        host_sample(sessions, host, age_s=2, cpu_percent=1.0)
        host_sample(
            sessions, host, age_s=1, cpu_percent=50.0, memory_bytes=2**33, network_received_bytes_per_s=100.0,
            network_sent_bytes_per_s=200.0, disk_read_bytes_per_s=300.0, disk_written_bytes_per_s=400.0,
        )  # fmt: skip
    with sessions.begin() as session:
        session.add(Project(name="vision", max_slots=8, max_queued=100, max_gpu_hours=50))
        session.add(Webhook(id="w", owner="me", url="https://example.org", events=["job.ended"], secret="s"))
        session.flush()
        for attempts, next_at in ((0, func.now()), (0, func.now()), (3, func.now()), (9, null())):
            session.add(
                WebhookDelivery(
                    webhook_id="w", event="job.ended", subject_id=lease.job_id, attempts=attempts, next_at=next_at
                )
            )
    return lease
