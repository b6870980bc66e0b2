"""The HTTP service. `uvicorn --factory api.main:create_app` runs it; the tests build theirs with `app_for`."""

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import iter_route_contexts
from prometheus_client import CollectorRegistry
from sqlalchemy.exc import SQLAlchemyError

from api import drawing, help_pages, openapi, page, problem_answers
from api.access.rate_limits import Limits
from api.access.token_cache import Tokens
from api.broker import Broker
from api.deps import Services, only_known_parameters
from api.lingering import Lingering
from api.live.hub import Hub
from api.live.topics import LIVE_READS
from api.metrics import cluster
from api.metrics.live_gauges import LiveGauges
from api.middleware import BodyLimit, Heads, Packing, Requests
from api.polling.entity_tags import installed_version
from api.polling.job_polls import Polls
from api.routes import (
    advice,
    analysis,
    artifacts,
    catalog,
    datasets,
    health,
    hosts,
    jobs,
    live,
    login,
    lookups,
    people,
    projects,
    series,
    studies,
    uploads,
    webhooks,
)
from api.unchanged_polls import ShortAnswers
from jobs.db.engine import engine_for, sessions_for
from jobs.model.spec import MAX_BYTES
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import Settings, settings

_POOL_SIZE = 8  # connections kept; as many again for a burst
_STRICT = [Depends(only_known_parameters)]  # the page's own addresses have queries that only it reads
_log = structlog.get_logger(__name__)


def create_app() -> FastAPI:
    """The service with the settings of the environment, for uvicorn."""
    configure_logging("api")
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # their own format would mix with ours
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # `api.middleware` writes a line for each request
    return app_for(settings())


def app_for(configuration: Settings) -> FastAPI:
    """The service with these settings. It connects to nothing before it starts."""
    registry = CollectorRegistry()

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        services = _services(configuration)
        cluster.register(registry, services.sessions, configuration)
        app.state.live_gauges = LiveGauges(services.sessions, configuration)
        app.state.services = services
        # A thread for each connection: a request never waits for one while it holds a thread.
        current_default_thread_limiter().total_tokens = 2 * _POOL_SIZE - LIVE_READS
        await run_in_threadpool(_let_the_configured_token_in, services)
        hub = Hub(
            services.sessions, configuration.database_url,
            host_timeout_s=configuration.host_timeout_s, live_tokens=services.tokens.let_in,
        )  # fmt: skip
        cluster.register_listeners(registry, lambda: hub.count)
        async with hub.open():
            app.state.live = hub
            yield
        await run_in_threadpool(services.hints.close)
        services.engine.dispose()
        drawing.close()

    app = FastAPI(
        title="Hora",
        version=installed_version(),
        description="Training jobs: submit a spec, watch it train, and see whether it scaled.",
        lifespan=lifespan,
        responses=openapi.UNREADABLE
        | openapi.problems(
            s401="No valid token",
            s403="The token may not",
            s422="Wrong fields",
            s429="Too many requests",
            s503="The database is away",
        ),
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
    )
    app.state.registry = registry
    for part in (
        lookups, jobs, analysis, advice, series, live, hosts, catalog, health, studies, people, login, projects,
        artifacts, webhooks, datasets, uploads,
    ):  # fmt: skip
        app.include_router(part.routes, dependencies=_STRICT)
    app.include_router(login.pages, dependencies=_STRICT)
    app.include_router(help_pages.routes_for(help_pages.FOLDER))
    app.include_router(page.routes_for(page.FOLDER, [route.path or "" for route in iter_route_contexts(app.routes)]))
    problem_answers.install(app)
    openapi.describe(app)
    app.add_middleware(Packing, minimum_size=1024, compresslevel=5)
    app.add_middleware(Heads)
    app.add_middleware(BodyLimit, limit=MAX_BYTES)
    app.add_middleware(ShortAnswers, polled=lookups.JOB_POLLED)
    app.add_middleware(Requests, durations_s=cluster.request_durations(registry))
    app.add_middleware(Lingering)  # outside of `Requests`: a request is done when it is answered
    return app


def _services(configuration: Settings) -> Services:
    engine = engine_for(configuration.database_url, pool_size=_POOL_SIZE)
    sessions = sessions_for(engine)
    return Services(
        settings=configuration,
        engine=engine,
        sessions=sessions,
        hints=Hints(configuration.broker_url),
        tokens=Tokens(sessions, configuration.token),
        limits=Limits(configuration),
        broker=Broker(configuration.broker_url),
        polls=Polls(engine, host_timeout_s=configuration.host_timeout_s),
    )


def _let_the_configured_token_in(services: Services) -> None:
    try:
        services.tokens.store_configured()
    except SQLAlchemyError as error:  # still starting, or not migrated yet: the token is stored when it first comes
        _log.warning("token not stored yet", error=str(error).partition("\n")[0])
