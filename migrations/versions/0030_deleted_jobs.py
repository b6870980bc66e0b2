"""deleted jobs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0030"
down_revision: str | None = "0029"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    timestamp, now = sa.DateTime(timezone=True), sa.text("now()")
    op.create_table(
        "deleted_jobs",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("deleted_at", timestamp, server_default=now, nullable=False),
        sa.Column("rows_due_at", timestamp, server_default=now, nullable=True),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_deleted_jobs")),
    )
    op.create_index(
        "ix_deleted_jobs_due", "deleted_jobs", ["rows_due_at"], postgresql_where=sa.text("rows_due_at IS NOT NULL")
    )
    op.create_index("ix_deleted_jobs_deleted_at", "deleted_jobs", ["deleted_at"])
    op.create_index("ix_webhook_deliveries_subject", "webhook_deliveries", ["subject_id"])


def downgrade() -> None:
    op.drop_index("ix_webhook_deliveries_subject", table_name="webhook_deliveries")
    op.drop_table("deleted_jobs")
