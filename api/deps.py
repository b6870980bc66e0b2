"""Dependencies of routes: the services of the process, the body, common parameters, and a check of the query.

`api.callers` says who calls.

Dependencies that do no I/O are `async`: FastAPI runs a plain one in a thread, which costs more than they do.
"""

import hashlib
from collections.abc import Sequence
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
from jobs.lifecycle.listing import NO_STUDY
from jobs.lifecycle.site_policy import SitePolicy, site_policy
from jobs.lifecycle.submission import Idempotency
from jobs.lifecycle.whole_ids import ambiguity, ids_that_begin, is_beginning, the_only
from jobs.model.printable import one_form
from jobs.model.problems import FieldProblem
from jobs.runtime.hints import Hints
from jobs.runtime.settings import Settings
from jobs.suggestions import each_meant

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


_AN_ID = "^[0-9a-z]{1,32}$"


async def _job_id(
    job_id: Annotated[str, Path(pattern=_AN_ID, description=f"The job's id{_BEGINNING}", examples=["3k9v0t2m7x1q"])],
    services: ServicesHere,
) -> str:
    return await _whole_id("job_id", job_id, Job.id, services)


async def _study_id(
    study_id: Annotated[
        str, Path(pattern=_AN_ID, description=f"The study's id{_BEGINNING}", examples=["7m2k0q9d4v1s"])
    ],
    services: ServicesHere,
) -> str:
    return await _whole_id("study_id", study_id, Study.id, services)


async def _study_of_query(
    services: ServicesHere,
    study: Annotated[
        str | None,
        Query(pattern=_AN_ID, description=f"Jobs of the study with this id{_BEGINNING}; `{NO_STUDY}`: of no study"),
    ] = None,
) -> str | None:
    return study if study in (None, NO_STUDY) else await _whole_id("study", study, Study.id, services)


async def _jobs_of_query(
    services: ServicesHere,
    job: Annotated[
        list[Annotated[str, Field(pattern=_AN_ID)]],
        Query(description=f"The id of a job{_BEGINNING}; repeat it for several", min_length=1, max_length=200),
    ],
) -> list[str]:
    return await _whole_ids("job", job, Job.id, services)


async def _whole_id(name: str, text: str, column: InstrumentedAttribute[str], services: Services) -> str:
    return (await _whole_ids(name, [text], column, services))[0]


async def _whole_ids(name: str, texts: list[str], column: InstrumentedAttribute[str], services: Services) -> list[str]:
    """For each text the only id that begins so, or the text itself if there is none. Whole ids are not looked up."""
    if not any(map(is_beginning, texts)):
        return texts

    def read() -> dict[str, Sequence[str]]:
        with services.sessions() as session:
            return ids_that_begin(session, column, texts)

    matching = await run_in_threadpool(read)
    if several := [(text, problem) for text in matching if (problem := ambiguity(text, matching))]:
        raise invalid([FieldProblem(name, problem, text) for text, problem in several])
    return [the_only(text, matching) for text in texts]


JobId = Annotated[str, Depends(_job_id)]
StudyId = Annotated[str, Depends(_study_id)]
OfStudy = Annotated[str | None, Depends(_study_of_query)]
SomeJobs = Annotated[list[str], Depends(_jobs_of_query)]
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
Cursor = Annotated[CursorText | None, Query(max_length=4000, description="The `next_cursor` of the previous page")]


async def only_known_parameters(request: Request) -> None:
    """Refuse query parameters that the route does not have: a misspelt filter must not mean "all"."""
    route = request.scope["route"]
    names = _query_parameters(route.dependant)
    unknown = [name for name in request.query_params if name not in names]
    if unknown:
        allowed = f"allowed: {', '.join(sorted(names))}" if names else "this route has none"
        why = f"no such query parameter; {allowed}"
        proposals = each_meant(unknown, names)
        raise invalid([FieldProblem(name[:80], why + more) for name, more in zip(unknown, proposals, strict=True)])


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
