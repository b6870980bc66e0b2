"""Saved views of the list of jobs."""

from collections.abc import Iterator, Mapping
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class ViewCalls(Calls):
    """The requests about saved views."""

    def create_view(self, name: str, content: Mapping[str, Any] | None = None, *, project: str | None = None) -> Json:
        """Save a view: your own, or a project's. `content` has `filter`, `sort`, `columns`, `pinned`, `metric`."""
        document = {"name": name, "project": project, "content": dict(content or {})}
        return self._wire.document("POST", api_path("views"), json=document)

    def views(self, *, project: str | None = None, page_size: int = 100) -> Iterator[Json]:
        """Your own views and those of all projects, or of one project."""
        yield from self._wire.pages(api_path("views"), {"project": project, "limit": page_size})

    def view(self, view_id: str) -> Json:
        """One view, also of somebody else."""
        return self._wire.document("GET", api_path("views", view_id))

    def change_view(self, view_id: str, *, name: str | None = None, content: Mapping[str, Any] | None = None) -> Json:
        """Rename a view, or replace its content. Safe to repeat."""
        changes = {"name": name, "content": None if content is None else dict(content)}
        document = {field: value for field, value in changes.items() if value is not None}
        return self._wire.document("PATCH", api_path("views", view_id), json=document, repeatable=True)

    def remove_view(self, view_id: str) -> None:
        """Delete a view."""
        self._wire.send("DELETE", api_path("views", view_id))
