"""Articles: pages of prose with figures of jobs in them, that people write."""

from datetime import datetime

from sqlalchemy import ForeignKey, Index, String, func
from sqlalchemy.orm import Mapped, mapped_column

from jobs.db.tables.base import Base


class Article(Base):
    """An article. Its title and text are those of its newest version. Written only by `jobs.insight.articles.store`."""

    __tablename__ = "articles"

    id: Mapped[str] = mapped_column(String(32), primary_key=True)
    owner: Mapped[str] = mapped_column(String(128))
    project: Mapped[str] = mapped_column(ForeignKey("projects.name"))
    version: Mapped[int]  # the number of the newest one, from 1
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
    changed_at: Mapped[datetime] = mapped_column(server_default=func.now())

    __table_args__ = (
        Index("ix_articles_changed", changed_at.desc(), id.desc()),
        Index("ix_articles_owner", owner, changed_at.desc(), id.desc()),
        Index("ix_articles_project", project, changed_at.desc(), id.desc()),
    )


class ArticleVersion(Base):
    """What an article said. A version never changes."""

    __tablename__ = "article_versions"

    article_id: Mapped[str] = mapped_column(ForeignKey("articles.id", ondelete="CASCADE"), primary_key=True)
    version: Mapped[int] = mapped_column(primary_key=True)
    author: Mapped[str] = mapped_column(String(128))
    title: Mapped[str] = mapped_column(String(200))
    text: Mapped[str]  # Markdown with blocks: `jobs.insight.articles.blocks`
    created_at: Mapped[datetime] = mapped_column(server_default=func.now())
