"""Saved views of the list of jobs."""

from hora.client.resource import Resource, reads, reads_pages, returns
from hora.service import Service
from jobs.views.saved_views import ViewOfJobs


class Views(Resource):
    """`client.views`."""

    create = reads(ViewOfJobs, Service.create_view)
    list = reads_pages(ViewOfJobs, Service.views)
    get = reads(ViewOfJobs, Service.view)
    change = reads(ViewOfJobs, Service.change_view)
    remove = returns(Service.remove_view)
