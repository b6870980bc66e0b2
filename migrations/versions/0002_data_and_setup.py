"""what a job's data turned out to be, and how long each part of an attempt's set-up took"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0002"
down_revision: str | None = "0001"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    # No column here makes PostgreSQL rewrite a table: they are null, or have a constant default.
    op.add_column("jobs", sa.Column("dataset", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("jobs", sa.Column("classes", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column(
        "attempts",
        sa.Column("setup", postgresql.JSONB(astext_type=sa.Text()), server_default=sa.text("'{}'"), nullable=False),
    )


def downgrade() -> None:
    op.drop_column("attempts", "setup")
    op.drop_column("jobs", "classes")
    op.drop_column("jobs", "dataset")
