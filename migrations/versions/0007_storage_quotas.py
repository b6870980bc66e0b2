"""what jobs keep on disk, and a project's limit of it"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("checkpoint_bytes", sa.BigInteger(), nullable=True))
    op.add_column("jobs", sa.Column("artifact_bytes", sa.BigInteger(), nullable=True))
    op.add_column("projects", sa.Column("max_storage_gb", sa.Float(precision=53), nullable=True))
    op.create_index(
        "ix_jobs_storage",
        "jobs",
        ["project"],
        unique=False,
        postgresql_include=["checkpoint_bytes", "artifact_bytes"],
        postgresql_where=sa.text("checkpoint_bytes > 0 OR artifact_bytes > 0"),
    )


def downgrade() -> None:
    op.drop_index("ix_jobs_storage", table_name="jobs")
    op.drop_column("projects", "max_storage_gb")
    op.drop_column("jobs", "artifact_bytes")
    op.drop_column("jobs", "checkpoint_bytes")
