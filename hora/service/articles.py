"""Articles: pages of prose with charts and tables of jobs in them."""

from collections.abc import Iterator
from typing import Literal

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path

Form = Literal["html", "pdf", "markdown"]


class ArticleCalls(Calls):
    """The requests about articles."""

    def create_article(self, title: str, text: str, *, project: str | None = None) -> Json:
        """Create an article. Its text is Markdown with blocks, as in docs/articles.md."""
        fields = {"title": title, "text": text, "project": project}
        document = {name: value for name, value in fields.items() if value is not None}
        return self._wire.document("POST", api_path("articles"), json=document)

    def articles(self, *, owner: str | None = None, project: str | None = None, page_size: int = 100) -> Iterator[Json]:
        """Articles, those that were changed last first, fetched page by page as they are consumed."""
        yield from self._wire.pages(api_path("articles"), {"owner": owner, "project": project, "limit": page_size})

    def article(self, article_id: str, *, version: int | None = None) -> Json:
        """An article with its text; by default the newest version."""
        return self._wire.document("GET", api_path("articles", article_id), params={"version": version})

    def article_versions(self, article_id: str) -> list[Json]:
        """The versions of an article that are kept, newest first."""
        versions: list[Json] = self._wire.document("GET", api_path("articles", article_id, "versions"))["items"]
        return versions

    def change_article(
        self, article_id: str, *, version: int, title: str | None = None, text: str | None = None
    ) -> Json:
        """Write a new version of an article. `version` is the one that you changed.

        Raises `Conflict` if there is a newer one.
        """
        fields = {"version": version, "title": title, "text": text}
        document = {name: value for name, value in fields.items() if value is not None}
        return self._wire.document("PATCH", api_path("articles", article_id), json=document)

    def remove_article(self, article_id: str) -> None:
        """Delete an article with all its versions."""
        self._wire.send("DELETE", api_path("articles", article_id))

    def export_article(
        self,
        article_id: str,
        *,
        format: Form = "html",  # noqa: A002 - what the API calls it
        version: int | None = None,
    ) -> bytes:
        """An article as one file, with what its charts and tables show now."""
        params = {"format": format, "version": version}
        return self._wire.send("GET", api_path("articles", article_id, "export"), params=params).content
