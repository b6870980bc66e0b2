"""the space and the storage of hosts, indices of the queue"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0008"
down_revision: str | None = "0007"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error",
]  # fmt: skip
_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended",
]  # fmt: skip
_NEW_KINDS = ["checkpoint_skipped", "out_of_space"]
_CHECKED = (
    ("jobs", "end_reason", "endreason", _REASONS, ["no_space"]),
    ("attempts", "end_reason", "endreason", _REASONS, ["no_space"]),
    ("job_events", "kind", "eventkind", _KINDS, _NEW_KINDS),
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("checkpoint_bytes", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("artifact_bytes", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("files_removed_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("projects", sa.Column("max_storage_gb", sa.Float(precision=53), nullable=True))
    op.add_column("hosts", sa.Column("no_space", sa.Text(), nullable=True))
    op.add_column("hosts", sa.Column("folders", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    for table, column, name, old, new in _CHECKED:
        _check(table, column, name, [*old, *new])
    op.create_index(
        "ix_jobs_storage",
        "jobs",
        ["project"],
        unique=False,
        postgresql_include=["checkpoint_bytes", "artifact_bytes"],
        postgresql_where=sa.text("checkpoint_bytes > 0 OR artifact_bytes > 0"),
    )
    op.create_index(
        "ix_jobs_stored",
        "jobs",
        [sa.literal_column("(coalesce(checkpoint_bytes, 0) + coalesce(artifact_bytes, 0))"), "created_at", "id"],
    )
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        [sa.literal_column("priority DESC"), "created_at", "id"],
        postgresql_where=sa.text("status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL"),
    )
    op.create_index("ix_jobs_queued", "jobs", ["owner", "project"], postgresql_where=sa.text("status = 'queued'"))


def downgrade() -> None:
    for index in ("ix_jobs_queued", "ix_jobs_waiting", "ix_jobs_stored", "ix_jobs_storage"):
        op.drop_index(index, table_name="jobs")
    op.drop_column("projects", "max_storage_gb")
    op.drop_column("jobs", "files_removed_at")
    op.drop_column("jobs", "artifact_bytes")
    op.drop_column("jobs", "checkpoint_bytes")
    op.execute("DELETE FROM job_events WHERE kind IN ('checkpoint_skipped', 'out_of_space')")
    for table in ("jobs", "attempts"):
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "no_space").values(end_reason="host_lost"))
    for table, column, name, old, _ in _CHECKED:
        _check(table, column, name, old)
    op.drop_column("hosts", "folders")
    op.drop_column("hosts", "no_space")


def _check(table: str, column: str, name: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    constraint = f"ck_{table}_{name}"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
