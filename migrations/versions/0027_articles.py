"""articles: pages of prose with figures of jobs in them"""

from collections.abc import Sequence

import sqlalchemy as sa
from alembic import op

revision: str = "0027"
down_revision: str | None = "0026"
branch_labels: str | Sequence[str] | None = None
depends_on: str | Sequence[str] | None = None

_NOW = sa.text("now()")


def upgrade() -> None:
    op.create_table(
        "articles",
        sa.Column("id", sa.String(32), nullable=False),
        sa.Column("owner", sa.String(128), nullable=False),
        sa.Column("project", sa.String(64), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.Column("changed_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.ForeignKeyConstraint(["project"], ["projects.name"], name=op.f("fk_articles_project")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_articles")),
    )
    newest_first = [sa.text("changed_at DESC"), sa.text("id DESC")]
    op.create_index("ix_articles_changed", "articles", newest_first)
    op.create_index("ix_articles_owner", "articles", ["owner", *newest_first])
    op.create_index("ix_articles_project", "articles", ["project", *newest_first])
    op.create_table(
        "article_versions",
        sa.Column("article_id", sa.String(32), nullable=False),
        sa.Column("version", sa.Integer(), nullable=False),
        sa.Column("author", sa.String(128), nullable=False),
        sa.Column("title", sa.String(200), nullable=False),
        sa.Column("text", sa.Text(), nullable=False),
        sa.Column("created_at", sa.DateTime(timezone=True), server_default=_NOW, nullable=False),
        sa.ForeignKeyConstraint(
            ["article_id"], ["articles.id"], name=op.f("fk_article_versions_article_id"), ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("article_id", "version", name=op.f("pk_article_versions")),
    )


def downgrade() -> None:
    op.drop_table("article_versions")
    op.drop_table("articles")
