"""Dependencies of routes: the services of the process, the body, common parameters, and a check of the query.

`api.callers` says who calls.

Dependencies that do no I/O are `async`: FastAPI runs a plain one in a thread, which costs more than they do.
"""

import hashlib
from dataclasses import dataclass
from typing import Annotated, Any

from fastapi import Depends, Header, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from pydantic import AfterValidator, BaseModel, Field, StringConstraints
from sqlalchemy import Engine
from sqlalchemy.orm import InstrumentedAttribute

from api.access.rate_limits import RateLimits
from api.access.stream_shares import StreamShares
from api.access.token_cache import TokenCache
from api.access.turns import Turns
from api.broker import Broker
from api.polling.job_tags import JobTags
from api.problems import UnsupportedBody, invalid
from api.store_calls import StoreCalls
from jobs.db.engine import Sessions
from jobs.db.tables import Job, Study
from jobs.lifecycle.site_policy import SitePolicy, site_policy
from jobs.lifecycle.store import ID_LENGTH, ids_that_begin
from jobs.lifecycle.submission import Idempotency
from jobs.model.printable import one_form
from jobs.model.problems import FieldProblem
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings

_MOST_NAMED = 5  # ids that begin with the same characters
JSON = "application/json"
MERGE_PATCH = "application/merge-patch+json"


@dataclass(frozen=True)
class Services:
    """The objects that live as long as the process."""

    settings: Settings
    engine: Engine
    sessions: Sessions
    hints: Hints
    tokens: TokenCache
    limits: RateLimits
    streams: StreamShares
    turns: Turns
    drawing_turns: Turns
    import_turns: Turns
    broker: Broker
    job_tags: JobTags
    store: StoreCalls

    @property
    def site(self) -> SitePolicy:
        """What the operator lets jobs use."""
        settings = self.settings
        return site_policy(settings)


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


ServicesHere = Annotated[Services, Depends(_services)]

_BEGINNING = ", or a beginning that no other has"


async def _job_id(
    job_id: Annotated[
        str, Path(pattern="^[0-9a-z]{1,32}$", description=f"The job's id{_BEGINNING}", examples=["3k9v0t2m7x1q"])
    ],
    services: ServicesHere,
) -> str:
    return await _whole_id("job_id", job_id, Job.id, services)


async def _study_id(
    study_id: Annotated[
        str, Path(pattern="^[0-9a-z]{1,32}$", description=f"The study's id{_BEGINNING}", examples=["7m2k0q9d4v1s"])
    ],
    services: ServicesHere,
) -> str:
    return await _whole_id("study_id", study_id, Study.id, services)


async def _whole_id(name: str, beginning: str, column: InstrumentedAttribute[str], services: Services) -> str:
    """The only id that begins so, or the text itself if there is none."""
    if len(beginning) >= ID_LENGTH:
        return beginning
    ids = await run_in_threadpool(ids_that_begin, services.sessions, column, beginning, most=_MOST_NAMED + 1)
    if len(ids) > 1:
        named = ", ".join(ids[:_MOST_NAMED]) + (" and others" if len(ids) > _MOST_NAMED else "")
        raise invalid([FieldProblem(name, f"{named} begin so; write more of the id", beginning)])
    return ids[0] if ids else beginning


JobId = Annotated[str, Depends(_job_id)]
StudyId = Annotated[str, Depends(_study_id)]
HostName = Annotated[
    str, Path(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,255}$", description="The host's name", examples=["gpu-1"])
]
SafeText = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]*$", max_length=255)]
LabelText = Annotated[SafeText, Field(json_schema_extra={"format": "label"})]  # key:value
SearchText = Annotated[SafeText, StringConstraints(min_length=1, max_length=200)]
NameText = Annotated[
    SafeText, AfterValidator(one_form)
]  # the name of a job, in the form in which names and labels are stored


EntityTags = Annotated[str, Field(json_schema_extra={"format": "entity-tags"})]
IfNoneMatch = Annotated[
    EntityTags | None,
    Header(
        alias="If-None-Match",
        max_length=10_000,
        description="ETags of answers that the caller has. If the answer is one of them, its status is 304",
    ),
]
PageLimit = Annotated[int, Query(ge=1, le=500, description="The page size")]
CursorText = Annotated[str, Field(json_schema_extra={"format": "cursor"})]
Cursor = Annotated[CursorText | None, Query(max_length=1000, description="The `next_cursor` of the previous page")]


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have: a misspelt filter must not mean "all"."""
    route = request.scope["route"]
    names = _query_parameters(route.dependant)
    unknown = [name for name in request.query_params if name not in names]
    if unknown:
        allowed = f"allowed: {', '.join(sorted(names))}" if names else "this route has none"
        raise invalid([FieldProblem(name[:80], f"no such query parameter; {allowed}") for name in unknown])


def _query_parameters(dependant: Dependant) -> set[str]:
    own = {field.alias for field in dependant.query_params}
    return own.union(*map(_query_parameters, dependant.dependencies))


async def json_body(request: Request) -> bytes:
    """The raw body of a request that says it is JSON. Raises `UnsupportedBody`."""
    _require_type(request, JSON)
    return await request.body()


async def only_json(request: Request) -> None:
    """Refuse a body that does not say it is JSON. No body is fine. Raises `UnsupportedBody`."""
    if await request.body():
        _require_type(request, JSON)


async def patch_body(request: Request) -> bytes:
    """The raw body of a request with changes; it may be empty. Raises `UnsupportedBody`."""
    body = await request.body()
    if body:
        _require_type(request, JSON, MERGE_PATCH)
    return body


def _require_type(request: Request, *allowed: str) -> None:
    received = request.headers.get("content-type")
    if received is None or received.partition(";")[0].strip().lower() not in allowed:
        raise UnsupportedBody(received, *allowed)


def as_json(view: BaseModel, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A response with its own status and headers."""
    return Response(view.model_dump_json(), status, headers, JSON)


def idempotency_of(key: str | None, *parts: str | bytes) -> Idempotency | None:
    """The client's key for a request, bound to the request's route and body (`parts`)."""
    return Idempotency(key, body_sha256(*parts)) if key else None


def body_sha256(*parts: str | bytes) -> str:
    """The hash of a request that an Idempotency-Key is bound to."""
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part.encode() if isinstance(part, str) else part)
        digest.update(b"\0")
    return digest.hexdigest()


def schema_body(schema: str, *media_types: str, required: bool, examples: dict[str, Any]) -> dict[str, Any]:
    """The OpenAPI of a body of the component `schema` that the route parses by itself."""
    content = {"schema": {"$ref": f"#/components/schemas/{schema}"}, "examples": examples}
    return {"requestBody": {"required": required, "content": dict.fromkeys(media_types, content)}}
