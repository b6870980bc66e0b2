"""usage of deleted and moved jobs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0032"
down_revision: str | None = "0031"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    timestamp = sa.DateTime(timezone=True)
    op.add_column("attempts", sa.Column("project", sa.String(64), nullable=True))
    op.create_table(
        "deleted_attempts",
        sa.Column("job_id", sa.String(32), nullable=False),
        sa.Column("number", sa.Integer(), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("shares", JSONB(), nullable=False),
        sa.Column("created_at", timestamp, nullable=False),
        sa.Column("ended_at", timestamp, nullable=False),
        sa.PrimaryKeyConstraint("job_id", "number", name=op.f("pk_deleted_attempts")),
    )
    op.create_index("ix_deleted_attempts_ended_at", "deleted_attempts", ["ended_at"])


def downgrade() -> None:
    op.drop_table("deleted_attempts")
    op.drop_column("attempts", "project")
