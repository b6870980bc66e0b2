"""The hosts that jobs run on."""

from hora.client.resource import Resource, reads, reads_list, returns
from hora.service import Service
from jobs.views.hosts import HostView
from jobs.views.series import HostUtilizationView


class Hosts(Resource):
    """`client.hosts`. Only admins change hosts."""

    list = reads_list(HostView, Service.hosts)
    get = reads(HostView, Service.host)
    utilization = reads(HostUtilizationView, Service.host_utilization)
    drain = reads(HostView, Service.drain)
    undrain = reads(HostView, Service.undrain)
    forget = returns(Service.forget_host)
