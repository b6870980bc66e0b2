"""jobs whose loss diverges, or whose ranks have different weights"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0033"
down_revision: str | None = "0032"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_REASONS = [
    "completed", "early_stopped", "cancelled", "rank_failed", "out_of_memory", "stalled", "time_limit", "launch_failed",
    "host_lost", "lease_expired", "preempted", "paused", "bad_data", "internal_error", "no_space", "no_device",
    "script_failed", "no_store", "dependency", "idle", "pruned",
]  # fmt: skip
_NEW = ["diverged", "weights_differ"]
_TABLES_WITH_REASON = ("jobs", "attempts")


def upgrade() -> None:
    for table in _TABLES_WITH_REASON:
        _check_reasons(table, [*_REASONS, *_NEW])


def downgrade() -> None:
    for table in _TABLES_WITH_REASON:
        reason = sa.column("end_reason", sa.Text())
        op.execute(sa.update(sa.table(table, reason)).where(reason.in_(_NEW)).values(end_reason="internal_error"))
        _check_reasons(table, _REASONS)


def _check_reasons(table: str, values: list[str]) -> None:
    """Allow these end reasons, and no others."""
    constraint = f"ck_{table}_endreason"
    op.drop_constraint(op.f(constraint), table, type_="check")
    allowed = ", ".join(f"'{value}'" for value in values)
    op.create_check_constraint(op.f(constraint), table, f"end_reason IN ({allowed})")
