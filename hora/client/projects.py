"""Projects, their limits and their members. What changes one is for admins."""

from collections.abc import Iterator
from typing import Any

from hora.client.reading import read
from hora.service import Service
from jobs.views.projects import ProjectView


class Projects:
    """`client.projects`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def list(self) -> Iterator[ProjectView]:
        """All projects by name, each with what counts against its quotas now."""
        return (read(ProjectView, one) for one in self._service.projects())

    def get(self, name: str) -> ProjectView:
        """One project."""
        return read(ProjectView, self._service.project(name))

    def create(self, name: str, **fields: Any) -> ProjectView:
        """Create a project; fields are those of `jobs.views.projects.NewProject`, such as `max_slots`."""
        return read(ProjectView, self._service.create_project({"name": name, **fields}))

    def change(self, name: str, **fields: Any) -> ProjectView:
        """Change some fields, or `is_archived`; None lifts a limit."""
        return read(ProjectView, self._service.change_project(name, fields))

    def add_member(self, project: str, user: str) -> ProjectView:
        """Let a user submit to a project and steer its jobs."""
        return read(ProjectView, self._service.add_member(project, user))

    def remove_member(self, project: str, user: str) -> None:
        """Let a user be no member any more."""
        self._service.remove_member(project, user)
