"""indices of the queue, so that a long one slows nobody"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0007"
down_revision: str | None = "0006"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_index(
        "ix_jobs_waiting",
        "jobs",
        [sa.literal_column("priority DESC"), "created_at", "id"],
        postgresql_where=sa.text("status = 'queued' AND cancel_requested_at IS NULL AND paused_at IS NULL"),
    )
    op.create_index("ix_jobs_queued", "jobs", ["owner", "project"], postgresql_where=sa.text("status = 'queued'"))


def downgrade() -> None:
    op.drop_index("ix_jobs_queued", table_name="jobs")
    op.drop_index("ix_jobs_waiting", table_name="jobs")
