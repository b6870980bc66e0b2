"""copies in the store: what was copied, what waits, and where the store is"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0011"
down_revision: str | None = "0010"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
    "script_failed",
]  # fmt: skip
_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space",
]  # fmt: skip
_NEW_KINDS = ["checkpoint_copied", "checkpoint_fetched", "copies_behind"]
_CHECKED = (
    ("jobs", "end_reason", "endreason", _REASONS, ["no_store"]),
    ("attempts", "end_reason", "endreason", _REASONS, ["no_store"]),
    ("job_events", "kind", "eventkind", _KINDS, _NEW_KINDS),
)


def upgrade() -> None:
    op.add_column("attempts", sa.Column("copied_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index("ix_attempts_to_copy", "attempts", ["host"], postgresql_where=sa.text("copied_at IS NULL"))
    op.add_column("jobs", sa.Column("copies_behind", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.create_index("ix_jobs_copies_behind", "jobs", ["id"], postgresql_where=sa.text("copies_behind IS NOT NULL"))
    op.add_column("jobs", sa.Column("copies_tidied_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("hosts", sa.Column("no_store", sa.Text(), nullable=True))
    op.create_table(
        "marked_stores",
        sa.Column("url", sa.Text(), nullable=False),
        sa.Column("marked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("tidied_at", sa.DateTime(timezone=True), nullable=True),
        sa.PrimaryKeyConstraint("url", name=op.f("pk_marked_stores")),
    )
    op.create_index(
        "ix_job_events_steps", "job_events",
        ["job_id", "attempt", "kind", sa.text("((data ->> 'step')::bigint)"), "id"],
        postgresql_where=sa.text("kind IN ('checkpoint_saved', 'epoch_ended')"),
    )  # fmt: skip
    for table, column, name, old, new in _CHECKED:
        _check(table, column, name, [*old, *new])


def downgrade() -> None:
    op.drop_index("ix_job_events_steps", "job_events")
    kind = sa.column("kind", sa.Text())
    op.execute(sa.delete(sa.table("job_events", kind)).where(kind.in_(_NEW_KINDS)))
    for table in ("jobs", "attempts"):
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "no_store").values(end_reason="host_lost"))
    for table, column, name, old, _ in _CHECKED:
        _check(table, column, name, old)
    op.drop_table("marked_stores")
    op.drop_column("hosts", "no_store")
    op.drop_column("jobs", "copies_tidied_at")
    op.drop_index("ix_jobs_copies_behind", "jobs")
    op.drop_column("jobs", "copies_behind")
    op.drop_index("ix_attempts_to_copy", "attempts")
    op.drop_column("attempts", "copied_at")


def _check(table: str, column: str, name: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    constraint = f"ck_{table}_{name}"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
