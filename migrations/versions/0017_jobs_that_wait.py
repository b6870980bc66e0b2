"""jobs that wait for others"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0017"
down_revision: str | None = "0016"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
    "script_failed", "no_store",
]  # fmt: skip
_IN_QUEUE = "status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL"


def upgrade() -> None:
    op.add_column("jobs", sa.Column("waits_for_jobs", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_table(
        "job_waits",
        sa.Column("job_id", sa.String(length=32), nullable=False),
        sa.Column("on_job_id", sa.String(length=32), nullable=False),
        sa.ForeignKeyConstraint(["job_id"], ["jobs.id"], name=op.f("fk_job_waits_job_id"), ondelete="CASCADE"),
        sa.ForeignKeyConstraint(["on_job_id"], ["jobs.id"], name=op.f("fk_job_waits_on_job_id"), ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("job_id", "on_job_id", name=op.f("pk_job_waits")),
    )
    op.create_index("ix_job_waits_on_job", "job_waits", ["on_job_id"])
    _index_queue(f"{_IN_QUEUE} AND NOT waits_for_jobs")
    for table in ("jobs", "attempts"):
        _check_reasons(table, [*_REASONS, "dependency"])


def downgrade() -> None:
    # The version before would place jobs that wait.
    jobs = sa.table("jobs", sa.column("status", sa.Text()), sa.column("paused_at"), sa.column("waits_for_jobs"))
    waiting = sa.update(jobs).where(jobs.c.status == "queued", jobs.c.waits_for_jobs, jobs.c.paused_at.is_(None))
    op.execute(waiting.values(paused_at=sa.func.now()))
    for table in ("jobs", "attempts"):
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "dependency").values(end_reason="cancelled"))
        _check_reasons(table, _REASONS)
    _index_queue(_IN_QUEUE)
    op.drop_table("job_waits")
    op.drop_column("jobs", "waits_for_jobs")


def _index_queue(condition: str) -> None:
    op.drop_index("ix_jobs_waiting", "jobs")
    op.create_index(
        "ix_jobs_waiting", "jobs", [sa.text("priority DESC"), "created_at", "id"], postgresql_where=sa.text(condition)
    )


def _check_reasons(table: str, reasons: list[str]) -> None:
    """Allow these end reasons, and no others."""
    constraint = op.f(f"ck_{table}_endreason")
    op.drop_constraint(constraint, table, type_="check")
    allowed = ", ".join(f"'{reason}'" for reason in reasons)
    op.create_check_constraint(constraint, table, f"end_reason IN ({allowed})")
