"""The hosts that jobs run on."""

from api.deps import ServicesHere, router
from api.views import HostView, Listed
from jobs.hosts import hosts

routes = router("hosts")


@routes.get("/hosts")
def list_hosts(services: ServicesHere) -> Listed[HostView]:
    """List the hosts, their slots, and which job holds each."""
    with services.sessions() as session:
        found = hosts(session, host_timeout_s=services.settings.host_timeout_s)
    return Listed[HostView].model_validate({"items": found})
