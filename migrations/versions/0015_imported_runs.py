"""imported runs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0015"
down_revision: str | None = "0014"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("run_id", sa.String(length=16), nullable=True))
    op.create_index(
        "uq_jobs_run", "jobs", ["owner", "run_id"], unique=True, postgresql_where=sa.text("run_id IS NOT NULL")
    )


def downgrade() -> None:
    op.drop_index("uq_jobs_run", table_name="jobs", postgresql_where=sa.text("run_id IS NOT NULL"))
    op.drop_column("jobs", "run_id")
