"""Projects: find, create, change, and their members."""

from collections.abc import Iterator, Mapping
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class ProjectCalls(Calls):
    """The requests about projects."""

    def projects(self, *, page_size: int = 100) -> Iterator[Json]:
        """All projects, sorted by name, with their quotas and present use."""
        yield from self._wire.pages(api_path("projects"), {"limit": page_size})

    def project(self, name: str) -> Json:
        """One project: its limits, members and `usage {slots, queued, gpu_hours, renews_at}`."""
        return self._wire.document("GET", api_path("projects", name))

    def create_project(self, document: Mapping[str, Any]) -> Json:
        """Create a project. Admins only.

        `{name, description, is_open, max_slots, max_queued, max_gpu_hours, max_storage_gb, max_priority, share,
        idle}`
        """
        return self._wire.document("POST", api_path("projects"), json=dict(document))

    def change_project(self, name: str, changes: Mapping[str, Any]) -> Json:
        """Change some fields of a project, or `is_archived`; null removes a quota. Admins only."""
        return self._wire.document("PATCH", api_path("projects", name), json=dict(changes), repeatable=True)

    def add_member(self, project: str, user: str) -> Json:
        """Add a member, who may submit to the project and control its jobs. Safe to repeat. Admins only."""
        return self._wire.document("PUT", api_path("projects", project, "members", user), repeatable=True)

    def remove_member(self, project: str, user: str) -> None:
        """Remove a member. Safe to repeat. Admins only."""
        self._wire.send("DELETE", api_path("projects", project, "members", user), repeatable=True)
