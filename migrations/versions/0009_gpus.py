"""the health of GPUs, who else uses them, and the end of a rank without one"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0009"
down_revision: str | None = "0008"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space",
]  # fmt: skip
_TABLES_WITH_REASON = ("jobs", "attempts")


def upgrade() -> None:
    op.add_column("slots", sa.Column("unhealthy", sa.Text(), nullable=True))
    op.add_column("slots", sa.Column("in_use_by_others", sa.Boolean(), server_default=sa.false(), nullable=False))
    for table in _TABLES_WITH_REASON:
        _check_reasons(table, [*_REASONS, "no_device"])


def downgrade() -> None:
    for table in _TABLES_WITH_REASON:
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason == "no_device").values(end_reason="internal_error"))
        _check_reasons(table, _REASONS)
    op.drop_column("slots", "in_use_by_others")
    op.drop_column("slots", "unhealthy")


def _check_reasons(table: str, values: list[str]) -> None:
    """Allow these end reasons, and no others."""
    constraint = f"ck_{table}_endreason"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"end_reason IN ({allowed})")
