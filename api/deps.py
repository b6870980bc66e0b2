"""What a route can ask for: who calls, the services of the process, the body, and a check of the query.

Dependencies that do no I/O are `async`: FastAPI runs a plain one in a thread, which costs more than they do.
"""

import hashlib
import time
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Request, Response, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, StringConstraints
from sqlalchemy import Engine

from api.broker import Broker
from api.problems import Unauthorized, UnsupportedBody, invalid
from jobs import tokens
from jobs.admission import Site
from jobs.database import Sessions
from jobs.hints import Hints
from jobs.settings import Settings
from jobs.spec import FieldProblem

JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


class Tokens:
    """Says whose token a request carries, and asks the database at most every `_FRESH_S` seconds for each.

    So a revoked token is refused within that time. Unknown ones are not remembered: nobody can fill the memory.
    """

    _FRESH_S = 3.0
    _MOST = 10_000

    def __init__(self, sessions: Sessions, configured: str | None) -> None:
        self._sessions = sessions
        self._configured = configured
        self._known: dict[str, tuple[str, float]] = {}

    def store_configured(self) -> None:
        """Let the token in that this stack was set up with."""
        if self._configured:
            with self._sessions.begin() as session:
                tokens.store_token(session, self._configured, name=tokens.ADMIN)

    def remembered(self, sha256: str) -> str | None:
        """Whose token it is, without asking the database; None where that is needed."""
        name, fresh_until = self._known.get(sha256, ("", 0.0))
        return name if time.monotonic() < fresh_until else None

    def looked_up(self, sha256: str) -> str | None:
        """Whose token it is; None for nobody's."""
        if self._configured and sha256 == tokens.token_sha256(self._configured):
            self.store_configured()  # the database was away, or not migrated, when this process started
        with self._sessions() as session:
            name = tokens.name_of(session, sha256)
        if name is not None:
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[sha256] = (name, time.monotonic() + self._FRESH_S)
        return name


@dataclass(frozen=True)
class Services:
    """What lives as long as the process."""

    settings: Settings
    engine: Engine
    sessions: Sessions
    hints: Hints
    tokens: Tokens
    broker: Broker

    @property
    def site(self) -> Site:
        """What the operator lets jobs use."""
        return Site(data_roots=self.settings.data_root_list, models=self.settings.model_list)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesHere = Annotated[Services, Depends(_services)]

_bearer = HTTPBearer(auto_error=False, description="A token, such as the one in `$HORA_HOME/token`.")


async def _caller(
    services: ServicesHere, credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)]
) -> str:
    if credentials is None or not credentials.credentials:
        raise Unauthorized("send a token as `Authorization: Bearer TOKEN`")
    sha256 = tokens.token_sha256(credentials.credentials)
    name = services.tokens.remembered(sha256) or await run_in_threadpool(services.tokens.looked_up, sha256)
    if name is None:
        raise Unauthorized("this token is unknown or was revoked")
    return name


Caller = Annotated[str, Depends(_caller)]
JobId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The job's id", examples=["3k9v0t2m7x1q"])]
StudyId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The study's id", examples=["7m2k0q9d4v1s"])]
HostName = Annotated[str, Path(pattern=r"^[^\x00-\x1f\x7f]{1,255}$", description="The host's name", examples=["gpu-1"])]
SafeText = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f]*$", max_length=255)]


IfNoneMatch = Annotated[str | None, Header(alias="If-None-Match", max_length=1000)]


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether the caller has the answer with this entity tag already; compared weakly, as of RFC 9110."""
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return bool(known & {"*", tag.removeprefix("W/")})


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not know: a misspelt filter must not mean "all"."""
    route = request.scope["route"]
    known = _query_parameters(route.dependant)
    unknown = [name for name in request.query_params if name not in known]
    if unknown:
        allowed = f"known here: {', '.join(sorted(known))}" if known else "none is known here"
        raise invalid([FieldProblem(name[:80], f"unknown query parameter; {allowed}") for name in unknown])


def _query_parameters(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_query_parameters, dependant.dependencies))


def router(*tags: str) -> APIRouter:
    """A router of routes below /v1, each of which needs a token."""
    return APIRouter(prefix="/v1", tags=list(tags), dependencies=[Depends(_caller)])


async def json_body(request: Request) -> bytes:
    """The raw body of a request that says it is JSON. Raises `UnsupportedBody`."""
    _require_type(request, JSON)
    return await request.body()


async def only_json(request: Request) -> None:
    """Refuse a body that does not say it is JSON, where the route takes none as well. Raises `UnsupportedBody`."""
    if await request.body():
        _require_type(request, JSON)


async def patch_body(request: Request) -> bytes:
    """The raw body of a request that changes something, or nothing at all. Raises `UnsupportedBody`."""
    body = await request.body()
    if body:
        _require_type(request, JSON, MERGE_PATCH)
    return body


def _require_type(request: Request, *allowed: str) -> None:
    received = request.headers.get("content-type")
    if received is None or received.partition(";")[0].strip().lower() not in allowed:
        raise UnsupportedBody(received, *allowed)


def as_json(view: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response whose status or headers depend on what happened."""
    return Response(view.model_dump_json(), status, headers, JSON)


def body_sha256(*parts: str | bytes) -> str:
    """What an Idempotency-Key is bound to."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def schema_body(schema: str, *media_types: str, required: bool, examples: dict[str, Any]) -> dict[str, Any]:
    """OpenAPI of a body that a route reads by itself, of the component `schema`."""
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": examples}
    return {"requestBody": {"required": required, "content": dict.fromkeys(media_types, content)}}
