"""archived jobs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0029"
down_revision: str | None = "0028"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NEWEST: list[sa.ColumnElement[str]] = [sa.literal_column("created_at DESC"), sa.literal_column("id DESC")]


def upgrade() -> None:
    op.add_column("jobs", sa.Column("archived", sa.Boolean(), server_default=sa.text("false"), nullable=False))
    op.create_index("ix_jobs_archived", "jobs", _NEWEST, postgresql_where=sa.text("archived"))
    op.create_index("ix_jobs_not_archived", "jobs", _NEWEST, postgresql_where=sa.text("NOT archived"))


def downgrade() -> None:
    op.drop_index("ix_jobs_not_archived", table_name="jobs")
    op.drop_index("ix_jobs_archived", table_name="jobs")
    op.drop_column("jobs", "archived")
