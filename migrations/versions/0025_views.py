"""saved views of the list of jobs"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision: str = "0025"
down_revision: str | None = "0024"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None


def upgrade() -> None:
    op.create_table(
        "views",
        sa.Column("id", sa.String(length=32), nullable=False),
        sa.Column("owner", sa.String(length=128), nullable=False),
        sa.Column("project", sa.String(length=64), nullable=True),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("content", JSONB(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.Column("updated_at", sa.DateTime(timezone=True), server_default=sa.text("now()"), nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_views_project_projects")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_views")),
    )
    of_user, of_project = sa.text("project IS NULL"), sa.text("project IS NOT NULL")
    op.create_index("ix_views_of_user", "views", ["owner", "name"], unique=True, postgresql_where=of_user)
    op.create_index("ix_views_of_project", "views", ["project", "name"], unique=True, postgresql_where=of_project)


def downgrade() -> None:
    op.drop_table("views")
