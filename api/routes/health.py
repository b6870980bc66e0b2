"""Health, readiness and the figures for Prometheus. These routes need no token."""

from datetime import timedelta
from typing import Annotated

from fastapi import APIRouter, Header, Response
from prometheus_client.exposition import choose_encoder
from sqlalchemy import func, select, text
from starlette.requests import Request

from api.deps import Services, ServicesHere
from api.problems import Unavailable
from jobs.db.tables import SCHEMA, Base, Host
from jobs.runtime.space import has_database, shortage
from jobs.views.service import ReadinessView

routes = APIRouter(tags=["health"])


@routes.get("/healthz")
async def get_health() -> dict[str, str]:
    """Check that the process runs."""
    return {"status": "ok"}


@routes.get("/readyz")
def get_readiness(services: ServicesHere) -> ReadinessView:
    """Check that requests can be served.

    The answer is 503 while the database is away or takes no writes, and while its schema is too old.

    A missing broker does not change the status, because hints only speed things up. `space` names what has no space.
    """
    with services.engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            connection.execute(select(table).limit(0))
        schema = connection.scalar(text("SELECT max(version_num) FROM alembic_version"))
        takes_writes = connection.scalar(text("SHOW transaction_read_only")) == "off"
    if schema is None or schema < SCHEMA:
        raise Unavailable(f"the database is not migrated: it is at {schema}, and this version needs {SCHEMA}")
    if not takes_writes:
        raise Unavailable("the database takes no writes: it is a standby, or was set to read only")
    answer = "ok" if schema == SCHEMA else f"{schema}; this version was made for {SCHEMA}"
    space, takes_jobs = _without_space(services)
    return ReadinessView(
        status="ok" if takes_jobs else "no_space",
        schema=answer,
        broker="ok" if services.broker.answers() else "away",
        space=space,
    )


def _without_space(services: Services) -> tuple[list[str], bool]:
    """What has no space, in sentences without names of hosts, and whether the service is of use nevertheless."""
    settings = services.settings
    own = shortage(settings, "datasets", *(["database"] if has_database(settings) else []))
    alive = Host.heartbeat_at > func.now() - timedelta(seconds=settings.host_timeout_s)
    with services.sessions() as session:
        hosts, full = session.execute(
            select(func.count(), func.count(Host.no_space)).where(alive, Host.drained_at.is_(None))
        ).one()
    space = [own] if own is not None else []
    if full:
        space.append(f"{full} of {hosts} hosts take no jobs until there is space")
    return space, own is None and (full == 0 or full < hosts)


@routes.get("/metrics", response_class=Response)
def get_prometheus_metrics(
    request: Request,
    accept: Annotated[str, Header(json_schema_extra={"format": "media-types"}, description="The format")] = "",
) -> Response:
    """Get the figures for Prometheus, in its text format."""
    try:
        encode, media_type = choose_encoder(accept)
    except (TypeError, ValueError):  # a version that is no number
        encode, media_type = choose_encoder("")
    state = request.app.state
    # The gauges come first, because one of the two formats ends with a line that marks its end.
    page = state.live_gauges.text().encode() + encode(state.registry)
    return Response(page, headers={"Content-Type": media_type})
