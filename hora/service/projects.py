"""Projects: look up, create, change, and who belongs to them."""

from collections.abc import Iterator, Mapping
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import at


class ProjectCalls(Calls):
    """What is asked of projects."""

    def projects(self, *, page_size: int = 100) -> Iterator[Json]:
        """All projects by name, each with what counts against its quotas now."""
        yield from self._wire.pages(at("projects"), {"limit": page_size})

    def project(self, name: str) -> Json:
        """One project: its limits, members and `usage {slots, queued, gpu_hours, renews_at}`."""
        return self._wire.document("GET", at("projects", name))

    def create_project(self, document: Mapping[str, Any]) -> Json:
        """Create a project: `{name, description, is_open, max_slots, max_queued, max_gpu_hours}`. Admins only."""
        return self._wire.document("POST", at("projects"), json=dict(document))

    def change_project(self, name: str, changes: Mapping[str, Any]) -> Json:
        """Change some fields of a project, or `is_archived`; null lifts a limit. Admins only."""
        return self._wire.document("PATCH", at("projects", name), json=dict(changes), again=True)

    def add_member(self, project: str, user: str) -> Json:
        """Let a user submit to a project and steer its jobs. Asking twice does no harm. Admins only."""
        return self._wire.document("PUT", at("projects", project, "members", user), again=True)

    def remove_member(self, project: str, user: str) -> None:
        """Let a user be no member any more. Asking twice does no harm. Admins only."""
        self._wire.send("DELETE", at("projects", project, "members", user), again=True)
