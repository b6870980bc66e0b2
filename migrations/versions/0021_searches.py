"""searches: what a study looks for, and jobs that it ends early"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0021"
down_revision: str | None = "0020"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
    "script_failed", "no_store", "dependency", "idle",
]  # fmt: skip
_KINDS = [
    "submitted", "placed", "launched", "rank_started", "first_step", "epoch_ended", "checkpoint_saved", "attempt_ended",
    "requeued", "cancel_requested", "pause_requested", "resumed", "preempt_requested", "ended", "checkpoint_skipped",
    "out_of_space", "checkpoint_copied", "checkpoint_fetched", "copies_behind", "waits_for_files", "changed",
    "idle_warned", "idle_withdrawn", "idle_acted",
]  # fmt: skip
_CHECKED = (
    ("jobs", "end_reason", "endreason", _REASONS, ["pruned"]),
    ("attempts", "end_reason", "endreason", _REASONS, ["pruned"]),
    ("job_events", "kind", "eventkind", _KINDS, ["prune_requested"]),
)


def upgrade() -> None:
    op.add_column("jobs", sa.Column("pruned_at_epoch", sa.Integer(), nullable=True))
    op.add_column("studies", sa.Column("search", sa.JSON(), nullable=True))
    op.add_column("studies", sa.Column("is_searching", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.add_column("studies", sa.Column("paused_at", sa.DateTime(timezone=True), nullable=True))
    op.add_column("studies", sa.Column("obstacle", sa.Text(), nullable=True))
    op.create_index("ix_studies_searching", "studies", ["id"], postgresql_where=sa.text("is_searching"))
    for table, column, name, old, new in _CHECKED:
        _check(table, column, name, [*old, *new])


def downgrade() -> None:
    kind = sa.column("kind", sa.Text())
    op.execute(sa.delete(sa.table("job_events", kind)).where(kind == "prune_requested"))
    for table in ("jobs", "attempts"):
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "pruned").values(end_reason="early_stopped"))
    for table, column, name, old, _ in _CHECKED:
        _check(table, column, name, old)
    op.drop_index("ix_studies_searching", table_name="studies")
    for column in ("obstacle", "paused_at", "is_searching", "search"):
        op.drop_column("studies", column)
    op.drop_column("jobs", "pruned_at_epoch")


def _check(table: str, column: str, name: str, values: list[str]) -> None:
    """Allow these values of a column, and no others."""
    constraint = f"ck_{table}_{name}"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"{column} IN ({allowed})")
