"""Articles: pages of prose with charts and tables of jobs in them. Everybody reads them."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import Body, Depends, Path, Query, Response
from sqlalchemy.orm import Session

from api.callers import CallerHere, router
from api.costs import PROCESS_TAKES_A_TURN
from api.deps import Cursor, IfNoneMatch, PageLimit, SafeText, Services, ServicesHere, as_json, only_json
from api.openapi import CREATED, problems
from api.polling.entity_tags import UNCHANGED, answer_or_304
from api.problems import invalid
from api.processes.drawing import file_of
from api.row_views import job_view
from jobs.db.tables import Job
from jobs.insight.articles import store
from jobs.insight.articles.blocks import blocks_of
from jobs.insight.articles.figures import document_of
from jobs.insight.articles.store import ArticleFilter
from jobs.lifecycle.job_usage import usage_of
from jobs.people import audit, project_admission
from jobs.runtime.prices import Prices
from jobs.views.articles import (
    ArticleChanges,
    ArticleLine,
    ArticlePreview,
    ArticleVersionView,
    ArticleView,
    NewArticle,
)
from jobs.views.base import Listed

routes = router("articles")

ArticleId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The article's id", examples=["4c1q8x5n0v7t"])]
Version = Annotated[int | None, Query(ge=1, le=2**31 - 1, description="This version; by default the newest")]
Form = Literal["html", "pdf", "markdown"]

_NO_SUCH_ARTICLE = problems(s404="No such article, or it has no such version")
_BODY = problems(s413="The body is too large", s415="The body is not JSON")
_BINARY = {"schema": {"type": "string", "format": "binary"}}
_FILE: dict[int | str, dict[str, object]] = {
    200: {
        "description": "The article as one file",
        "content": {"text/html": {"schema": {"type": "string"}}, "application/pdf": _BINARY, "text/markdown": _BINARY},
    }
}
_PREVIEWED: dict[int | str, dict[str, object]] = {
    200: {"model": ArticlePreview, "description": "With `dry_run`: the text in its parts"}
}
_MEDIA_TYPES = {"html": "text/html", "pdf": "application/pdf", "markdown": "text/markdown"}
_ENDINGS = {"html": "html", "pdf": "pdf", "markdown": "md"}


@routes.post(
    "/articles",
    status_code=201,
    response_model=ArticleView,
    responses=CREATED | _PREVIEWED | problems(s409="The owner has too many articles") | _BODY,
    dependencies=[Depends(only_json)],
)
def create_article(
    services: ServicesHere,
    caller: CallerHere,
    new: Annotated[NewArticle, Body()],
    dry_run: Annotated[bool, Query(description="Check the text and answer with its parts, but store nothing")] = False,
) -> Response:
    """Create an article. Its text is Markdown, with blocks for charts and tables of jobs."""
    if dry_run:
        return as_json(ArticlePreview(blocks=blocks_of(new.text)))
    with services.sessions.begin() as session:
        project = project_admission.project_of(session, new.project)
        if missing := project_admission.missing_project(session, project, new.project, caller.applicant):
            raise invalid(missing)
        project_admission.require_submitter(session, new.project, caller.applicant)
        article = store.create(session, owner=caller.user, project=new.project, title=new.title, text=new.text)
        audit.record(session, caller.actor, "article.created", article.id, title=article.title)
    return as_json(article, 201, {"Location": f"/v1/articles/{article.id}"})


@routes.get("/articles", response_model=Listed[ArticleLine], responses=UNCHANGED)
def list_articles(
    services: ServicesHere,
    owner: Annotated[SafeText | None, Query(description="Articles of this user")] = None,
    project: Annotated[SafeText | None, Query(description="Articles of this project")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List articles, those that were changed last first."""
    with services.sessions() as session:
        page = store.list_articles(session, ArticleFilter(owner, project), limit=limit, cursor=cursor)
    return answer_or_304(Listed[ArticleLine](items=page.items, next_cursor=page.next_cursor), if_none_match)


@routes.get("/articles/{article_id}", response_model=ArticleView, responses=UNCHANGED | _NO_SUCH_ARTICLE)
def get_article(
    article_id: ArticleId, services: ServicesHere, version: Version = None, if_none_match: IfNoneMatch = None
) -> Response:
    """Get an article, with its text in parts."""
    return answer_or_304(_read(services, article_id, version), if_none_match)


@routes.get(
    "/articles/{article_id}/versions", response_model=Listed[ArticleVersionView], responses=UNCHANGED | _NO_SUCH_ARTICLE
)
def list_article_versions(article_id: ArticleId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """List the versions of an article that are kept, newest first."""
    with services.sessions() as session:
        versions = store.versions(session, article_id)
    return answer_or_304(Listed[ArticleVersionView](items=versions), if_none_match)


@routes.patch(
    "/articles/{article_id}",
    responses=_NO_SUCH_ARTICLE | problems(s409="Somebody changed the article meanwhile") | _BODY,
    dependencies=[Depends(only_json)],
)
def change_article(
    article_id: ArticleId, services: ServicesHere, caller: CallerHere, changes: Annotated[ArticleChanges, Body()]
) -> ArticleView:
    """Write a new version of an article. If nothing changes, there is no new version."""
    with services.sessions.begin() as session:
        article = store.get(session, article_id, to_change=True)
        caller.require_steering(session, "article", article)
        changed = store.change(
            session, article, seen_version=changes.version, author=caller.user, title=changes.title, text=changes.text
        )
        if changed.version != changes.version:
            audit.record(session, caller.actor, "article.changed", article_id, version=changed.version)
    return changed


@routes.delete("/articles/{article_id}", status_code=204, responses=_NO_SUCH_ARTICLE)
def delete_article(article_id: ArticleId, services: ServicesHere, caller: CallerHere) -> None:
    """Delete an article with all its versions."""
    with services.sessions.begin() as session:
        article = store.get(session, article_id, to_change=True)
        caller.require_steering(session, "article", article)
        store.remove(session, article)
        audit.record(session, caller.actor, "article.deleted", article_id)


@routes.get(
    "/articles/{article_id}/export",
    response_class=Response,
    responses=_FILE | _NO_SUCH_ARTICLE | problems(s501="The api's machine lacks the libraries that PDF needs"),
    dependencies=[PROCESS_TAKES_A_TURN],
)
def export_article(
    article_id: ArticleId,
    services: ServicesHere,
    version: Version = None,
    form: Annotated[
        Form, Query(alias="format", description="One file of `html` or `pdf` with its charts in it, or `markdown`")
    ] = "html",
) -> Response:
    """Get an article as one file, with what its charts and tables show now."""
    named = {"Content-Disposition": f'attachment; filename="article-{article_id}.{_ENDINGS[form]}"'}
    article = _read(services, article_id, version)
    if form == "markdown":
        content = f"# {article.title}\n\n{article.text}".encode()
    else:
        with services.sessions() as session:
            json_of = partial(_json_of, session, services.settings.prices)
            document = document_of(session, article, json_of, as_pdf=form == "pdf")
        content = file_of(document)
    return Response(content, headers=named, media_type=_MEDIA_TYPES[form])


def _json_of(session: Session, prices: Prices | None, jobs: Sequence[Job]) -> list[dict[str, Any]]:
    usage = usage_of(session, [job.id for job in jobs], prices)
    return [job_view(job, is_whole=False, usage=usage[job.id]).model_dump(mode="json") for job in jobs]


def _read(services: Services, article_id: str, version: int | None) -> ArticleView:
    with services.sessions() as session:
        return store.read(session, article_id, version)
