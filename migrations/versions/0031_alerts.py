"""alerts of jobs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0031"
down_revision: str | None = "0030"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space", "checkpoint_copied", "checkpoint_fetched", "copies_behind", "waits_for_files", "changed",
    "idle_warned", "idle_withdrawn", "idle_acted", "prune_requested",
]  # fmt: skip


def upgrade() -> None:
    op.add_column("jobs", sa.Column("alerts", sa.Integer(), server_default=sa.text("0"), nullable=False))
    op.add_column("jobs", sa.Column("last_alert", JSONB(), nullable=True))
    op.add_column("webhook_deliveries", sa.Column("event_id", sa.BigInteger(), nullable=True))
    _check_kinds([*_KINDS, "alert"])
    op.create_index("ix_job_events_alerts", "job_events", ["job_id", "id"], postgresql_where=sa.text("kind = 'alert'"))


def downgrade() -> None:
    op.execute("DELETE FROM webhook_deliveries WHERE event = 'job.alert'")
    op.execute("DELETE FROM webhooks WHERE events = '{job.alert}'")
    op.execute("UPDATE webhooks SET events = array_remove(events, 'job.alert') WHERE 'job.alert' = ANY (events)")
    op.execute("DELETE FROM job_events WHERE kind = 'alert'")
    op.drop_index("ix_job_events_alerts", table_name="job_events")
    _check_kinds(_KINDS)
    op.drop_column("webhook_deliveries", "event_id")
    op.drop_column("jobs", "last_alert")
    op.drop_column("jobs", "alerts")


def _check_kinds(kinds: list[str]) -> None:
    """Allow these kinds of events, and no others."""
    constraint = op.f("ck_job_events_eventkind")
    op.drop_constraint(constraint, "job_events", type_="check")
    allowed = ", ".join(f"'{kind}'" for kind in kinds)
    op.create_check_constraint(constraint, "job_events", f"kind IN ({allowed})")
