"""bursts: jobs that one user submits one after the other"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0022"
down_revision: str | None = "0021"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("burst", sa.String(length=32), nullable=True))
    op.create_index("ix_jobs_burst", "jobs", ["burst", "attempt"], postgresql_where=sa.text("burst IS NOT NULL"))


def downgrade() -> None:
    op.drop_index("ix_jobs_burst", table_name="jobs")
    op.drop_column("jobs", "burst")
