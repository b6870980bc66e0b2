"""Hosts: look them up, drain them, and forget lost ones."""

from typing import TYPE_CHECKING, Annotated, Literal

from fastapi import Body, Depends, Query, Request, Response
from sqlalchemy.orm import Session

from api.callers import ADMIN_ONLY, CallerHere, router
from api.costs import LONG_PAGE_TAKES_A_TURN, TAKES_A_TURN
from api.deps import Cursor, HostName, IfNoneMatch, PageLimit, Services, ServicesHere, only_json
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304, answer_with, is_known, tag_of, unchanged
from api.routes.series import MaxPoints
from jobs.people import audit
from jobs.scheduling import draining
from jobs.scheduling.hosts import host, hosts
from jobs.telemetry import host_samples
from jobs.telemetry.sampled_metrics import HOST_METRICS
from jobs.views.base import Listed
from jobs.views.hosts import Drain, HostView
from jobs.views.series import HostUtilizationView

routes = router("hosts")

if TYPE_CHECKING:
    HostMetric = str
else:
    HostMetric = Literal[tuple(HOST_METRICS)]

_NO_SUCH_HOST = problems(s404="No such host")
_WEEK_MINUTES = 7 * 24 * 60


@routes.get("/hosts", response_model=Listed[HostView], responses=UNCHANGED, dependencies=[LONG_PAGE_TAKES_A_TURN])
def list_hosts(
    services: ServicesHere, limit: PageLimit = 500, cursor: Cursor = None, if_none_match: IfNoneMatch = None
) -> Response:
    """List hosts by name, with their slots and the job on each slot.

    With `If-None-Match` an unchanged page gets 304. Every heartbeat, and every missing one, changes the page.
    """
    with services.sessions() as session:
        page = hosts(session, host_timeout_s=services.settings.host_timeout_s, limit=limit, cursor=cursor)
    ages = {"items": {"__all__": {"heartbeat_age_s"}}}
    return answer_or_304(Listed[HostView].model_validate(page), if_none_match, exclude_from_tag=ages)


@routes.get("/hosts/{name}", response_model=HostView, responses=UNCHANGED | _NO_SUCH_HOST)
def get_host(name: HostName, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get a host. With `If-None-Match` the answer is 304 until its next heartbeat, or until a heartbeat is missing."""
    with services.sessions() as session:
        view = _view(session, services, name)
    return answer_or_304(view, if_none_match, exclude_from_tag={"heartbeat_age_s"})


@routes.get(
    "/hosts/{name}/utilization",
    response_model=HostUtilizationView,
    responses=UNCHANGED | _NO_SUCH_HOST,
    dependencies=[TAKES_A_TURN],
)
def get_host_utilization(
    name: HostName,
    request: Request,
    services: ServicesHere,
    metric: Annotated[list[HostMetric], Query(description="Only this metric; repeat it for several")] = [],  # noqa: B006
    minutes: Annotated[
        float, Query(gt=0, le=_WEEK_MINUTES, description="The length of the period up to now, in minutes")
    ] = 60,
    max_points: MaxPoints = 1000,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the utilization of a whole host, about once a second: processors, memory, network and disks.

    With `If-None-Match` the answer is 304 until there is a newer sample.
    """
    metrics: tuple[str, ...] = tuple(dict.fromkeys(metric)) or tuple(HOST_METRICS)
    with services.sessions() as session:
        tag = tag_of(host_samples.version_of(session, name), request.url.query)
        if is_known(tag, if_none_match):
            return unchanged(tag)
        utilization = host_samples.host_utilization(
            session, name, metrics=metrics, minutes=minutes, max_points=max_points
        )
    return answer_with(HostUtilizationView.model_validate(utilization), tag)


@routes.post(
    "/hosts/{name}/drain",
    responses=_NO_SUCH_HOST | problems(s415="The body is not JSON"),
    dependencies=[ADMIN_ONLY, Depends(only_json)],
)
def drain_host(
    name: HostName, services: ServicesHere, caller: CallerHere, drain: Annotated[Drain | None, Body()] = None
) -> HostView:
    """Drain a host: it gets no new jobs. Its jobs go on; with `requeue` they save and continue on other hosts."""
    with services.sessions.begin() as session:
        requeue = drain is not None and drain.requeue
        draining.drain(session, name, requeue=requeue)
        audit.record(session, caller.actor, "host.drained", name, requeue=requeue)
        return _view(session, services, name)


@routes.post("/hosts/{name}/undrain", responses=_NO_SUCH_HOST, dependencies=[ADMIN_ONLY])
def undrain_host(name: HostName, services: ServicesHere, caller: CallerHere) -> HostView:
    """Undrain a host: jobs are placed there again."""
    with services.sessions.begin() as session:
        draining.undrain(session, name)
        audit.record(session, caller.actor, "host.undrained", name)
        view = _view(session, services, name)
    services.hints.dispatch()
    return view


@routes.delete(
    "/hosts/{name}",
    status_code=204,
    responses=_NO_SUCH_HOST | problems(s409="The host is alive, or has attempts that have not ended"),
    dependencies=[ADMIN_ONLY],
)
def forget_host(name: HostName, services: ServicesHere, caller: CallerHere) -> None:
    """Remove a lost host from the list. If it comes back, it registers again."""
    with services.sessions.begin() as session:
        draining.forget(session, name, host_timeout_s=services.settings.host_timeout_s)
        audit.record(session, caller.actor, "host.forgotten", name)


def _view(session: Session, services: Services, name: str) -> HostView:
    return HostView.model_validate(host(session, name, host_timeout_s=services.settings.host_timeout_s))
