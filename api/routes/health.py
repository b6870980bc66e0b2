"""Whether the service lives, whether it can work, and its figures for Prometheus. No token is needed here."""

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
    """Say that the process lives."""
    return {"status": "ok"}


@routes.get("/readyz")
def get_readiness(services: ServicesHere) -> ReadinessView:
    """Say whether requests can be served: 503 while the database is away, or older than this version needs.

    A broker that is away is no reason: messages only hurry what the database already says.
    """
    with services.engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            connection.execute(select(table).limit(0))
        found = connection.scalar(text("SELECT max(version_num) FROM alembic_version"))
    if found is None or found < SCHEMA:
        raise Unavailable(f"the database is not migrated: it is at {found}, and this version needs {SCHEMA}")
    schema = "ok" if found == SCHEMA else f"{found}; this version was made for {SCHEMA}"
    return ReadinessView(schema=schema, broker="ok" if services.broker.answers() else "away")


@routes.get("/metrics", response_class=Response)
def get_prometheus_metrics(
    request: Request, accept: Annotated[str, Header(description="Which format")] = ""
) -> Response:
    """Answer with Prometheus's text format."""
    encode, media_type = choose_encoder(accept)
    state = request.app.state
    # In this order: one of the two forms ends with a line that says so.
    page = state.live_gauges.text().encode() + encode(state.registry)
    return Response(page, headers={"Content-Type": media_type})
