"""slots that nobody uses: what a project does about them, the notice of a job, and how far samples were judged"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0018"
down_revision: str | None = "0017"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
    "script_failed", "no_store", "dependency",
]  # fmt: skip
_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space", "checkpoint_copied", "checkpoint_fetched", "copies_behind", "waits_for_files", "changed",
]  # fmt: skip
_NEW_KINDS = ["idle_warned", "idle_withdrawn", "idle_acted"]
_CHECKED = (
    ("jobs", "end_reason", "endreason", _REASONS, ["idle"]),
    ("attempts", "end_reason", "endreason", _REASONS, ["idle"]),
    ("job_events", "kind", "eventkind", _KINDS, _NEW_KINDS),
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("idle", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("projects", sa.Column("idle", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.create_table(
        "idle_stretches",
        sa.Column("attempt_id", sa.BigInteger(), nullable=False),
        sa.Column("below", sa.Float(precision=53), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True), nullable=False),
        sa.Column("until", sa.DateTime(timezone=True), nullable=False),
        sa.Column("looked_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(
            ["attempt_id"],
            ["attempts.id"],
            name=op.f("fk_idle_stretches_attempt_id_attempts"),
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("attempt_id", name=op.f("pk_idle_stretches")),
    )
    for table, column, name, old, new in _CHECKED:
        _check(table, column, name, [*old, *new])


def downgrade() -> None:
    kind = sa.column("kind", sa.Text())
    op.execute(sa.delete(sa.table("job_events", kind)).where(kind.in_(_NEW_KINDS)))
    for table in ("jobs", "attempts"):
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "idle").values(end_reason="cancelled"))
    for table, column, name, old, _ in _CHECKED:
        _check(table, column, name, old)
    _forget_messages()
    op.drop_table("idle_stretches")
    op.drop_column("projects", "idle")
    op.drop_column("jobs", "idle")


def _forget_messages() -> None:
    """Take away the messages about idle slots, and what asks for them. Code before this knows no such event."""
    op.execute("DELETE FROM webhook_deliveries WHERE event = 'job.idle'")
    op.execute("DELETE FROM webhooks WHERE events <@ ARRAY['job.idle']::varchar[] AND events <> '{}'")
    op.execute(
        "UPDATE webhooks SET events = array_remove(events, 'job.idle') WHERE events @> ARRAY['job.idle']::varchar[]"
    )


def _check(table: str, column: str, name: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    constraint = f"ck_{table}_{name}"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
