"""jobs on several hosts, pause and preemption, drained hosts, and how long runs took"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0003"
down_revision: str | None = "0002"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "bad_data", "internal_error",
]  # fmt: skip
_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "ended",
]  # fmt: skip
_NEW_REASONS = ["preempted", "paused"]
_NEW_KINDS = ["pause_requested", "resumed", "preempt_requested"]
_CHECKED = (
    ("jobs", "end_reason", "endreason", _REASONS, _NEW_REASONS),
    ("attempts", "end_reason", "endreason", _REASONS, _NEW_REASONS),
    ("job_events", "kind", "eventkind", _KINDS, _NEW_KINDS),
)


def upgrade() -> None:
    now = sa.text("now()")
    timestamp = sa.DateTime(timezone=True)
    op.add_column("jobs", sa.Column("losses", sa.Integer(), server_default="0", nullable=False))
    op.add_column("jobs", sa.Column("run_key", sa.String(64), nullable=True))
    op.add_column("jobs", sa.Column("queued_at", timestamp, server_default=now, nullable=False))
    op.add_column("jobs", sa.Column("paused_at", timestamp, nullable=True))
    op.execute("UPDATE jobs SET queued_at = created_at")
    jsonb = postgresql.JSONB(astext_type=sa.Text())
    op.add_column("attempts", sa.Column("shares", jsonb, server_default=sa.text("'[]'"), nullable=False))
    op.execute(
        "UPDATE attempts SET shares = jsonb_build_array(jsonb_build_object('host', host, 'slots', coalesce("
        "(SELECT data->'slots' FROM job_events AS event WHERE event.job_id = attempts.job_id"
        " AND event.attempt = attempts.number AND event.kind = 'placed' LIMIT 1), '[]'::jsonb)))"
    )
    op.add_column("attempts", sa.Column("queued_at", timestamp, server_default=now, nullable=False))
    op.execute("UPDATE attempts SET queued_at = created_at")
    op.add_column("attempts", sa.Column("due_at", timestamp, nullable=True))
    op.add_column("attempts", sa.Column("preempt_requested_at", timestamp, nullable=True))
    op.add_column("attempts", sa.Column("preempted_for", sa.Text(), nullable=True))
    op.add_column("hosts", sa.Column("address", sa.String(255), nullable=True))
    op.add_column("hosts", sa.Column("drained_at", timestamp, nullable=True))
    op.add_column("hosts", sa.Column("kept_for", sa.String(32), nullable=True))
    for column in ("logs_removed_at", "series_thinned_at"):
        op.add_column("jobs", sa.Column(column, timestamp, nullable=True))
    op.create_index("ix_jobs_with_logs", "jobs", ["ended_at"], postgresql_where=sa.text("logs_removed_at IS NULL"))
    op.create_index("ix_jobs_with_series", "jobs", ["ended_at"], postgresql_where=sa.text("series_thinned_at IS NULL"))
    for table in ("jobs", "attempts"):
        op.create_index(f"ix_{table}_ended_at", table, ["ended_at"])
    op.create_table(
        "run_times",
        sa.Column("run_key", sa.String(64), nullable=False),
        sa.Column("durations_s", postgresql.ARRAY(sa.Float(53)), nullable=False),
        sa.Column("updated_at", timestamp, server_default=now, nullable=False),
        sa.PrimaryKeyConstraint("run_key", name=op.f("pk_run_times")),
    )
    for table, column, name, old, new in _CHECKED:
        _check(table, column, name, [*old, *new])


def downgrade() -> None:
    for table, column, name, old, new in _CHECKED:
        # What the older version has no word for is told by the nearest one it has.
        nearest = "host_lost" if column == "end_reason" else "requeued"
        for value in new:
            lightweight = sa.table(table, sa.column(column, sa.Text()))
            op.execute(sa.update(lightweight).where(lightweight.c[column] == value).values({column: nearest}))
        _check(table, column, name, old)
    op.drop_table("run_times")
    for table in ("jobs", "attempts"):
        op.drop_index(f"ix_{table}_ended_at", table_name=table)
    for table, columns in (
        ("hosts", ["kept_for", "drained_at", "address"]),
        ("attempts", ["preempted_for", "preempt_requested_at", "due_at", "queued_at", "shares"]),
        ("jobs", ["series_thinned_at", "logs_removed_at", "paused_at", "queued_at", "run_key", "losses"]),
    ):
        for column in columns:
            op.drop_column(table, column)


def _check(table: str, column: str, name: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    constraint = f"ck_{table}_{name}"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
