"""Whether the service lives, whether it can work, and its figures for Prometheus. No token is needed here."""

from typing import Annotated

from fastapi import APIRouter, Header, Response
from fastapi.responses import RedirectResponse
from prometheus_client.exposition import choose_encoder
from sqlalchemy import select
from starlette.requests import Request

from api.deps import ServicesHere
from jobs.tables import Base

routes = APIRouter(tags=["health"])


@routes.get("/", include_in_schema=False)
async def go_to_the_docs() -> RedirectResponse:
    """Send a person with a browser where there is something to see."""
    return RedirectResponse("/docs")


@routes.get("/healthz")
async def get_health() -> dict[str, str]:
    """Say that the process lives."""
    return {"status": "ok"}


@routes.get("/readyz")
def get_readiness(services: ServicesHere) -> dict[str, str]:
    """Say whether requests can be served: 503 while the database is away or lacks a table or column."""
    with services.engine.connect() as connection:
        for table in Base.metadata.sorted_tables:
            connection.execute(select(table).limit(0))
    return {"status": "ok"}


@routes.get("/metrics", response_class=Response)
def get_prometheus_metrics(request: Request, accept: Annotated[str, Header()] = "") -> Response:
    """Answer with Prometheus's text format."""
    encode, media_type = choose_encoder(accept)
    return Response(encode(request.app.state.registry), headers={"Content-Type": media_type})
