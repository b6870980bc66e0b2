"""Projects, their quotas, their members, and what was used."""

from typing import TYPE_CHECKING, Unpack

from hora.client.resource import Resource, reads, reads_pages, returns
from hora.service import Service
from jobs.views.projects import ProjectView
from jobs.views.usage import UsageReport

if TYPE_CHECKING:
    from hora.client.fields import ProjectChangeFields, ProjectFields


class Projects(Resource):
    """`client.projects`. Only admins change projects."""

    list = reads_pages(ProjectView, Service.projects)
    get = reads(ProjectView, Service.project)
    add_member = reads(ProjectView, Service.add_member)
    remove_member = returns(Service.remove_member)
    usage = reads(UsageReport, Service.usage)
    usage_csv = returns(Service.usage_csv)

    def create(self, name: str, **fields: "Unpack[ProjectFields]") -> ProjectView:
        """Create a project. The fields are those of `jobs.views.projects.NewProject`, such as `max_slots`."""
        return self._read(ProjectView, self._service.create_project({"name": name, **fields}))

    def change(self, name: str, **fields: "Unpack[ProjectChangeFields]") -> ProjectView:
        """Change some fields, or `is_archived`. None removes a quota."""
        return self._read(ProjectView, self._service.change_project(name, fields))
