"""The hosts that jobs run on, and what an operator asks of them."""

from typing import Annotated

from fastapi import Body, Depends
from sqlalchemy.orm import Session

from api.deps import HostName, Services, ServicesHere, only_json, router
from api.openapi import problems
from api.views import Drain, HostView, Listed
from jobs import draining
from jobs.hosts import host, hosts

routes = router("hosts")

_NO_SUCH_HOST = problems(s404="No such host")


@routes.get("/hosts")
def list_hosts(services: ServicesHere) -> Listed[HostView]:
    """List the hosts, their slots, and which job holds each."""
    with services.sessions() as session:
        found = hosts(session, host_timeout_s=services.settings.host_timeout_s)
    return Listed[HostView].model_validate({"items": found})


@routes.get("/hosts/{name}", responses=_NO_SUCH_HOST)
def get_host(name: HostName, services: ServicesHere) -> HostView:
    """Look a host up."""
    with services.sessions() as session:
        return _view(session, services, name)


@routes.post(
    "/hosts/{name}/drain",
    responses=_NO_SUCH_HOST | problems(s415="The body is not JSON"),
    dependencies=[Depends(only_json)],
)
def drain_host(name: HostName, services: ServicesHere, how: Annotated[Drain | None, Body()] = None) -> HostView:
    """Place nothing new on a host. What runs there goes on, or with `requeue` saves and goes elsewhere."""
    with services.sessions.begin() as session:
        draining.drain(session, name, requeue=how is not None and how.requeue)
        return _view(session, services, name)


@routes.post("/hosts/{name}/undrain", responses=_NO_SUCH_HOST)
def undrain_host(name: HostName, services: ServicesHere) -> HostView:
    """Let jobs be placed on a host again."""
    with services.sessions.begin() as session:
        draining.undrain(session, name)
        view = _view(session, services, name)
    services.hints.dispatch()
    return view


@routes.delete(
    "/hosts/{name}",
    status_code=204,
    responses=_NO_SUCH_HOST | problems(s409="The host is alive, or has attempts that have not ended"),
)
def forget_host(name: HostName, services: ServicesHere) -> None:
    """Forget a host that is lost. It registers anew if it comes back."""
    with services.sessions.begin() as session:
        draining.forget(session, name, host_timeout_s=services.settings.host_timeout_s)


def _view(session: Session, services: Services, name: str) -> HostView:
    return HostView.model_validate(host(session, name, host_timeout_s=services.settings.host_timeout_s))
