"""The one place where the server of the api is configured. Used by `python -m api`, by tests and by benches."""

import resource
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import structlog
import uvicorn
from starlette.types import ASGIApp
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from api.serving.connections import Connections, Limits
from api.serving.protocol import LimitedProtocol
from jobs.runtime.settings import Settings

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

_OTHER_FILES = 512  # that the process needs beside its connections: the database, downloads, what it has loaded

_log = structlog.get_logger(__name__)


def config_for(app: ASGIApp, settings: Settings, **options: Any) -> uvicorn.Config:
    """uvicorn's configuration for the api with these settings. `options` are uvicorn's own, such as `port`."""
    config = uvicorn.Config(
        cast("ASGI3Application", app), ws="none", log_config=None, access_log=False, server_header=False, **options
    )
    limits = Limits(
        connections=_connections(settings),
        connections_per_address=settings.connections_per_address,
        headers_timeout_s=settings.headers_timeout_s,
        transfer_timeout_s=settings.transfer_timeout_s,
    )
    proxies = ProxyHeadersMiddleware(cast("ASGI3Application", app), config.forwarded_allow_ips).trusted_hosts
    connections = Connections(limits, is_proxy=proxies.__contains__)
    protocol = partial(LimitedProtocol, all_connections=connections)
    config.http = cast("type[LimitedProtocol]", protocol)  # uvicorn only calls it
    return config


def allow_files(settings: Settings) -> None:
    """Let this process open a file for each connection, as far as the operator's hard limit allows it."""
    needed = settings.connections + _OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    if soft != resource.RLIM_INFINITY and soft < allowed:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        _log.warning("few open files allowed", allowed=allowed, needed=needed, connections=_connections(settings))


def _connections(settings: Settings) -> int:
    """So many connections as there are files for: without a file for a new one the server could not even refuse it."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return settings.connections
    return min(settings.connections, max(soft - _OTHER_FILES, soft // 2))
