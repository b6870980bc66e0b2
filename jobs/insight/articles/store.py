"""The rows of articles: create, list, read, change and delete. Called by the api, in its transaction.

ArticleNotFound     no article has this id, or it has no such version
ArticleChanged      somebody changed the article meanwhile
TooManyArticles     its owner has as many as allowed
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, select, tuple_
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_TIME, Page
from jobs.db.tables import Article, ArticleVersion
from jobs.insight.articles.blocks import blocks_of
from jobs.lifecycle.store import new_id
from jobs.model.problems import InvalidSpec
from jobs.views.articles import ArticleLine, ArticleVersionView, ArticleView, Block, ProseBlock

MAX_OF_AN_OWNER = 500
KEPT_VERSIONS = 100
_ID = re.compile(r"[0-9a-z]+")


class ArticleNotFound(LookupError):
    """No article has this id, or it has no such version."""


class ArticleChanged(ValueError):
    """Somebody changed the article meanwhile."""


class TooManyArticles(ValueError):
    """The owner has as many articles as allowed."""


@dataclass(frozen=True)
class ArticleFilter:
    """Which articles a list has. An article must match every part that is set."""

    owner: str | None = None
    project: str | None = None


def create(session: Session, *, owner: str, project: str, title: str, text: str) -> ArticleView:
    """Create an article. Raises `TooManyArticles`, `InvalidSpec`."""
    blocks_of(text)
    # Requests of one owner take turns, so that the count is right until the commit.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"articles\n{owner}", 0))))
    owned = session.scalar(select(func.count()).where(Article.owner == owner))
    if owned is not None and owned >= MAX_OF_AN_OWNER:
        raise TooManyArticles(f"{owner} has {MAX_OF_AN_OWNER} articles, the most allowed: delete one first")
    article = Article(id=new_id(), owner=owner, project=project, version=1)
    session.add(article)
    session.flush()
    return _view(article, _add_version(session, article, author=owner, title=title, text=text))


def change(
    session: Session, article: Article, *, seen_version: int, author: str, title: str | None, text: str | None
) -> ArticleView:
    """Write a new version of an article that is locked, if something changes.

    `seen_version` is the version that the author changed. Raises `ArticleChanged`, `InvalidSpec`.
    """
    newest = _version(session, article.id, article.version)
    if seen_version != article.version:
        problem = f"article {article.id} has version {article.version} now, by {newest.author}"
        raise ArticleChanged(f"{problem}; you changed version {seen_version}: read it again, and repeat your change")
    title, text = title if title is not None else newest.title, text if text is not None else newest.text
    if (title, text) == (newest.title, newest.text):
        return _view(article, newest)
    blocks_of(text)
    article.version += 1
    article.changed_at = session.execute(select(func.clock_timestamp())).scalar_one()
    oldest = article.version - KEPT_VERSIONS
    session.execute(
        delete(ArticleVersion).where(ArticleVersion.article_id == article.id, ArticleVersion.version <= oldest)
    )
    return _view(article, _add_version(session, article, author=author, title=title, text=text))


def get(session: Session, article_id: str, *, to_change: bool = False) -> Article:
    """An article's row. With `to_change` it is locked until the commit. Raises `ArticleNotFound`."""
    query = select(Article).where(Article.id == article_id)
    article = session.scalar(
        query.with_for_update() if to_change else query, execution_options={"populate_existing": True}
    )
    if article is None:
        raise ArticleNotFound(article_id)
    return article


def read(session: Session, article_id: str, version: int | None = None) -> ArticleView:
    """A version of an article; by default the newest. Raises `ArticleNotFound`."""
    article = get(session, article_id)
    return _view(article, _version(session, article_id, version or article.version))


def remove(session: Session, article: Article) -> None:
    """Delete an article with all its versions."""
    session.delete(article)


def list_articles(session: Session, chosen: ArticleFilter, *, limit: int, cursor: str | None) -> Page[ArticleLine]:
    """A page of articles, those that were changed last first. Raises `InvalidCursor`."""
    identity = f"articles {chosen!r}"
    query = (
        select(Article, ArticleVersion.title, ArticleVersion.author)
        .join(
            ArticleVersion,
            (ArticleVersion.article_id == Article.id) & (ArticleVersion.version == Article.version),
        )
        .order_by(Article.changed_at.desc(), Article.id.desc())
        .limit(limit + 1)
    )
    for column, value in ((Article.owner, chosen.owner), (Article.project, chosen.project)):
        if value is not None:
            query = query.where(column == value)
    if cursor is not None:
        position = tuple_(*cursors.decode(session, cursor, by=BY_TIME, of=identity))
        query = query.where(tuple_(Article.changed_at, Article.id) < position)
    rows = [_line(article, title=title, author=author) for article, title, author in session.execute(query)]
    return cursors.page_of(
        session, rows, by=BY_TIME, limit=limit, of=identity, position=lambda line: (line.changed_at, line.id)
    )


def versions(session: Session, article_id: str) -> Sequence[ArticleVersionView]:
    """The versions of an article that are kept, the newest first. Raises `ArticleNotFound`."""
    get(session, article_id)
    row = ArticleVersion
    columns = (row.version, row.author, row.title, row.created_at, func.length(row.text).label("characters"))
    query = select(*columns).where(row.article_id == article_id).order_by(row.version.desc())
    return [ArticleVersionView.model_validate(each) for each in session.execute(query)]


def articles_with(session: Session, ids: Sequence[str]) -> Iterator[Article]:
    """The articles whose newest version has one of these jobs or studies in a chart or a table, sorted by id."""
    newest = (ArticleVersion.article_id == Article.id) & (ArticleVersion.version == Article.version)
    query = select(Article, ArticleVersion.text).join(ArticleVersion, newest)
    named = frozenset(ids)
    # The database looks for one text quickly, but for a thousand of them slowly.
    may_name = ArticleVersion.text.contains(ids[0] if len(ids) == 1 else "hora")
    for article, text in session.execute(query.where(may_name).order_by(Article.id)):
        if named.isdisjoint(_ID.findall(text)):
            continue
        figures = (block for block in _blocks(text) if not isinstance(block, ProseBlock))
        if any(not named.isdisjoint([*(figure.runs.jobs or ()), figure.runs.study]) for figure in figures):
            yield article


def _version(session: Session, article_id: str, version: int) -> ArticleVersion:
    row = session.get(ArticleVersion, (article_id, version))
    if row is None:
        raise ArticleNotFound(f"{article_id} with version {version}")
    return row


def _add_version(session: Session, article: Article, *, author: str, title: str, text: str) -> ArticleVersion:
    row = ArticleVersion(article_id=article.id, version=article.version, author=author, title=title, text=text)
    session.add(row)
    session.flush()
    return row


def _view(article: Article, version: ArticleVersion) -> ArticleView:
    line = _line(article, title=version.title, author=version.author)
    values = line.model_dump()
    if version.version != article.version:
        values |= {"version": version.version, "changed_at": version.created_at}
    return ArticleView(**values, text=version.text, blocks=_blocks(version.text))


def _blocks(text: str) -> list[Block]:
    """The parts of a stored text. One that an earlier version of Hora took, and this one would not, is prose."""
    try:
        return blocks_of(text)
    except InvalidSpec:
        return [ProseBlock(text=text)]


def _line(article: Article, *, title: str, author: str) -> ArticleLine:
    return ArticleLine(
        id=article.id, owner=article.owner, project=article.project, title=title, version=article.version,
        author=author, created_at=article.created_at, changed_at=article.changed_at,
    )  # fmt: skip
