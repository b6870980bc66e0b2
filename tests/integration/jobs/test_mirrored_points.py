"""Which points of a job go to another tracking server, and under which names."""

from datetime import UTC, datetime

from jobs.db.engine import Sessions
from jobs.lifecycle.store import get_job
from jobs.outward.mirroring import points
from jobs.telemetry import ingest
from jobs.telemetry.ingest import ALL_RANKS, MetricRow
from tests.integration.jobs import code_rows, job_rows

NAMES = ("loss", "val_iou", "recall@5", "a/../b", "step_time_p50_s")


def sent(sessions: Sessions, **fields: object) -> set[str]:
    """The keys of what is sent of a job that stored every one of the names, by step and by epoch."""
    lease = job_rows.a_running_attempt(sessions, **fields)
    now = datetime.now(UTC)
    with sessions.begin() as session:
        rows = [
            MetricRow(lease.job_id, name, rank, step, lease.number, 1, now, 0.5)
            for name in NAMES
            for rank in (ALL_RANKS, 0, 1)
            for step in range(1, 21)  # enough for blocks
        ]
        ingest.store_metrics(session, rows)
        job = get_job(session, lease.job_id)
        return {point.key for point in points.metrics(session, job, after=0, until=20, every=1)}


def test_every_metric_of_a_script_is_sent_under_a_plain_name(sessions: Sessions) -> None:
    code = code_rows.an_archive(sessions, b"code")
    keys = {"loss", "val_iou", "recall_5", "a_.._b"}
    assert sent(sessions, code=code, command=["python", "x.py"]) == keys | {f"step/{key}" for key in keys}


def test_of_hora_s_own_loop_its_own_metrics_are_sent(sessions: Sessions) -> None:
    assert sent(sessions) == {"loss", "step/loss"}
