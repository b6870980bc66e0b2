"""log levels: how serious a line of a log is"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0023"
down_revision: str | None = "0022"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.add_column("log_lines", sa.Column("level", sa.SmallInteger(), server_default="20", nullable=False))
    op.create_index("ix_log_lines_serious", "log_lines", ["job_id", "id"], postgresql_where=sa.text("level >= 30"))


def downgrade() -> None:
    op.drop_index("ix_log_lines_serious", table_name="log_lines")
    op.drop_column("log_lines", "level")
