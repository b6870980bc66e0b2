"""the nodes of Slurm on which attempts failed, and when jobs were handed to Slurm"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision: str = "0014"
down_revision: str | None = "0013"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("allocations", sa.Column("lost_nodes", postgresql.JSONB(astext_type=sa.Text()), nullable=True))
    op.add_column("attempts", sa.Column("handed_at", sa.DateTime(timezone=True), nullable=True))
    op.create_index(
        "ix_allocations_lost", "allocations", ["pool"],
        postgresql_where=sa.text("lost_nodes IS NOT NULL"),
    )  # fmt: skip


def downgrade() -> None:
    op.drop_index("ix_allocations_lost", "allocations")
    op.drop_column("attempts", "handed_at")
    op.drop_column("allocations", "lost_nodes")
