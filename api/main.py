"""The HTTP service as an ASGI app. `python -m api` serves it; the tests build theirs with `app_for`."""

import asyncio
import gc
import logging
import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog
from anyio.to_thread import current_default_thread_limiter
from fastapi import Depends, FastAPI
from fastapi.concurrency import run_in_threadpool
from fastapi.routing import iter_route_contexts
from prometheus_client import CollectorRegistry
from sqlalchemy.exc import SQLAlchemyError

from api import openapi, problem_answers
from api.access.common_memory import CommonMemory, repeat
from api.access.rate_limits import RateLimits
from api.access.settling import SETTLE_EVERY_S, settle_all
from api.access.stream_shares import WRITE_EVERY_S, StreamShares
from api.access.token_cache import TokenCache
from api.access.turns import Turns
from api.broker import Broker
from api.deps import Services, only_known_parameters
from api.lingering import Lingering
from api.live.hub import Hub
from api.live.topics import LIVE_READS
from api.metrics import cluster
from api.metrics.live_gauges import LiveGauges
from api.middleware import BodyLimit, Compression, HeadAsGet, RequestTracking
from api.pages import docs_page, help_pages, page
from api.pages.packed import PackedFiles
from api.polling.entity_tags import installed_version
from api.polling.job_tags import JobTags
from api.processes import drawing
from api.routes import (
    advice,
    analysis,
    articles,
    artifacts,
    catalog,
    checkpoints,
    code,
    datasets,
    ended_studies,
    health,
    hosts,
    imports,
    job_counts,
    job_deletion,
    job_groups,
    jobs,
    live,
    login,
    lookups,
    people,
    projects,
    queue,
    series,
    studies,
    uploads,
    usage,
    views,
    webhooks,
)
from api.store_calls import StoreCalls
from api.unchanged_polls import UnchangedPolls
from jobs.db.engine import engine_for, sessions_for
from jobs.model.spec import MAX_BYTES
from jobs.runtime.closed_home import close_home
from jobs.runtime.files import PRIVATE_UMASK
from jobs.runtime.hints import Hints
from jobs.runtime.logs import configure_logging
from jobs.runtime.settings import Settings, settings

_POOL_SIZE = 8  # open connections; twice as many in a burst
_SWITCH_INTERVAL_S = 0.001
_STRICT = [Depends(only_known_parameters)]  # not for the page, which reads its own queries
_log = structlog.get_logger(__name__)


def create_app() -> FastAPI:
    """The service for `uvicorn --factory`, the command of earlier versions. It has no limits for connections."""
    os.umask(PRIVATE_UMASK)
    configure_process()
    _log.warning("started without limits for headers and connections", do="start it with: python -m api")
    close_home(settings().home, scripts_pass=settings().code_user is not None)
    return app_for(settings())


def configure_process() -> None:
    """Log in our own format, the lines of uvicorn as well, and hold up requests less."""
    configure_logging("api")
    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):  # their own format differs from ours
        logger = logging.getLogger(name)
        logger.handlers.clear()
        logger.propagate = True
    logging.getLogger("uvicorn.access").disabled = True  # `api.middleware` writes a line for each request
    # A thread that computes gives way sooner, and the collector of garbage does not look at imported modules each time:
    # both hold up all other requests.
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    gc.freeze()


def app_for(configuration: Settings) -> FastAPI:
    """The service with these settings. It connects to nothing before it starts."""
    registry = CollectorRegistry()
    app = FastAPI(
        title="Hora",
        version=installed_version(),
        description="Training jobs: submit a spec, watch it train, and see whether it scaled.",
        lifespan=lambda app: _running(app, configuration, registry),
        responses=openapi.UNREADABLE
        | openapi.problems(
            s401="No valid token",
            s403="The token does not allow this",
            s422="Some fields are wrong",
            s429="Too many requests",
            s503="The database does not answer",
        ),
        generate_unique_id_function=lambda route: route.name,
        redirect_slashes=False,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.registry = registry
    _add_routes(app)
    problem_answers.install(app)
    openapi.describe(app)
    _add_middleware(app, registry)
    return app


@asynccontextmanager
async def _running(app: FastAPI, configuration: Settings, registry: CollectorRegistry) -> AsyncIterator[None]:
    """Connect the app while it runs, and close all at its end."""
    memory = CommonMemory.at(configuration.broker_url)
    services = _services(configuration, memory)
    cluster.register(registry, services.sessions, configuration)
    app.state.live_gauges = LiveGauges(services.sessions, configuration)
    app.state.services = services
    # A thread for each connection: a request never waits for one while it holds a thread.
    current_default_thread_limiter().total_tokens = 2 * _POOL_SIZE - LIVE_READS
    await run_in_threadpool(_store_configured_token, services)
    hub = Hub(
        services.sessions, configuration.database_url,
        host_timeout_s=configuration.host_timeout_s, valid_tokens=services.tokens.valid_among,
    )  # fmt: skip
    cluster.register_listeners(registry, lambda: hub.count)
    async with _shared(services, memory), hub.open():
        app.state.live = hub
        yield
    services.store.close()
    await run_in_threadpool(services.hints.close)
    services.engine.dispose()
    drawing.close()


def _add_routes(app: FastAPI) -> None:
    for part in (
        job_counts, job_groups, lookups, jobs, job_deletion, analysis, advice, series, live, hosts, catalog, health,
        studies, ended_studies, articles, people, login, projects, queue, artifacts, checkpoints, views, webhooks,
        datasets, uploads, code, imports, usage,
    ):  # fmt: skip
        app.include_router(part.routes, dependencies=_STRICT)
    app.include_router(login.pages, dependencies=_STRICT)
    app.include_router(help_pages.routes_for(help_pages.FOLDER))
    app.include_router(docs_page.routes_for(page.FOLDER / "docs"))
    app.include_router(page.routes_for(page.FOLDER, [route.path or "" for route in iter_route_contexts(app.routes)]))


def _add_middleware(app: FastAPI, registry: CollectorRegistry) -> None:
    """The last one added is the first that sees a request."""
    app.add_middleware(PackedFiles, folder=page.FOLDER)
    app.add_middleware(Compression, minimum_size=1024, compresslevel=5)
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit, limit=MAX_BYTES)
    app.add_middleware(UnchangedPolls, polled=lookups.POLLED_JOB)
    app.add_middleware(RequestTracking, durations_s=cluster.request_durations(registry))
    app.add_middleware(Lingering)  # outside of `RequestTracking`: a request is done when it is answered


@asynccontextmanager
async def _shared(services: Services, memory: CommonMemory | None) -> AsyncIterator[None]:
    """Share limits with the other apis of the service, as long as the broker answers."""
    if memory is None:
        yield
        return
    stopped = asyncio.Event()
    settling = repeat(lambda: settle_all(services.limits.buckets, memory), every_s=SETTLE_EVERY_S, stopped=stopped)
    writing = repeat(services.streams.write, every_s=WRITE_EVERY_S, stopped=stopped)
    tasks = [asyncio.create_task(work) for work in (settling, writing)]
    try:
        yield
    finally:
        stopped.set()
        await asyncio.gather(*tasks)
        await memory.close()


def _services(configuration: Settings, memory: CommonMemory | None) -> Services:
    engine = engine_for(configuration.database_url, pool_size=_POOL_SIZE)
    sessions = sessions_for(engine)
    return Services(
        settings=configuration,
        engine=engine,
        sessions=sessions,
        hints=Hints(configuration.broker_url),
        tokens=TokenCache(sessions, configuration.token),
        limits=RateLimits(configuration),
        streams=StreamShares(configuration.max_streams, memory),
        turns=Turns(),
        drawing_turns=Turns(),
        import_turns=Turns(at_once=1),  # one reads and stores up to millions of rows in this process
        broker=Broker(configuration.broker_url),
        job_tags=JobTags(engine, host_timeout_s=configuration.host_timeout_s),
        store=StoreCalls(configuration, sessions),
    )


def _store_configured_token(services: Services) -> None:
    try:
        services.tokens.store_configured()
    except SQLAlchemyError as error:  # still starting, or not migrated yet: its first use stores the token
        _log.warning("token not stored yet", error=str(error).partition("\n")[0])
