"""Health, readiness and the figures for Prometheus. These routes need no token."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from prometheus_client.exposition import choose_encoder
from sqlalchemy import select, text
from starlette.requests import Request

from api.deps import ServicesHere
from api.problems import Unavailable
from jobs.db.tables import SCHEMA, Base
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

    A missing broker does not change the status, because hints only speed things up.
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
    return ReadinessView(schema=answer, broker="ok" if services.broker.answers() else "away")


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
