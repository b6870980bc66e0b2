"""The history of a job, as pages and as a live stream, and the live stream of all jobs."""

from functools import partial
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Request, Response
from pydantic import Field
from sqlalchemy.orm import Session

from api.callers import CallerHere, router
from api.costs import HISTORY_TAKES_A_TURN, charge_time
from api.deps import Cursor, IfNoneMatch, JobId, LabelText, SafeText, ServicesHere
from api.live.feed import ALL_JOBS, FeedFilter
from api.live.hub import Hub
from api.live.positions import FeedPosition, JobPosition, PositionT, position_in
from api.live.response import MEDIA_TYPE, LiveResponse, wants_stream
from api.live.sent_rows import SentRows
from api.openapi import NO_SUCH_JOB
from api.polling import versions
from api.polling.entity_tags import UNCHANGED, answer_with, is_known, tag_of, unchanged
from api.problems import Unavailable, invalid
from jobs.db.cursors import InvalidCursor
from jobs.lifecycle import history
from jobs.lifecycle.store import get_job
from jobs.model.printable import one_form
from jobs.model.problems import FieldProblem
from jobs.suggestions import each_meant
from jobs.views.base import Listed
from jobs.views.jobs import EventView
from jobs.views.live import Kind

routes = router("live")

_DEFAULT = frozenset({Kind.EVENT, Kind.STATE, Kind.PROGRESS})
_EXAMPLE = 'event: progress\ndata: {"epoch":1,"epochs":3,"step":40,"steps":63,"eta_s":1.5}\nid: b3k…\n\n'
_STREAM: dict[str, Any] = {MEDIA_TYPE: {"schema": {"type": "string"}, "example": _EXAMPLE}}
_JOB_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "A page of the history; with `Accept: text/event-stream` the live stream",
          "content": _STREAM},
    204: {"description": "The stream was already read to its end; nothing will follow"},
}  # fmt: skip
_FEED: dict[int | str, dict[str, Any]] = {200: {"description": "The live stream", "content": _STREAM}}
_WRONG_EVENT_ID = "this is not the id of an event of this stream; leave it out to start from the beginning"


def _hub(request: Request) -> Hub:
    hub: Hub = request.app.state.live
    return hub


HubHere = Annotated[Hub, Depends(_hub)]
LastEventId = Annotated[
    Annotated[str, Field(json_schema_extra={"format": "event-id"})] | None,
    Header(alias="Last-Event-ID", max_length=8000, description="Continue after this event of the stream"),
]


@routes.get(
    "/jobs/{job_id}/events",
    response_model=Listed[EventView],
    responses=_JOB_STREAM | UNCHANGED | NO_SUCH_JOB,
    dependencies=[HISTORY_TAKES_A_TURN],
)
def list_events(
    job_id: JobId,
    request: Request,
    services: ServicesHere,
    caller: CallerHere,
    hub: HubHere,
    limit: Annotated[int, Query(ge=1, le=10_000, description="The page size")] = 1000,
    cursor: Cursor = None,
    include: Annotated[
        list[Annotated[str, Field(json_schema_extra={"format": "kinds"})]],
        Query(
            description=f"The events to stream: {', '.join(Kind)}. Repeat it, or separate them with commas",
            max_length=20,
        ),
    ] = [],  # noqa: B006
    logs_after: Annotated[
        int | None, Query(ge=0, lt=2**62, description="Of the logs, stream only the lines after this id")
    ] = None,
    last_event_id: LastEventId = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """Get the history of a job, oldest first; or follow the job live, with `Accept: text/event-stream`.

    The stream sends the history from its start, what is added to it, and the newest `state` and `progress`. With
    `include` it also sends new points of `metrics` and the lines of `logs`. It ends with `end`. See docs/live.md.
    """
    if wants_stream(request):
        _refuse(request, "limit", "cursor", why="a stream has no pages; leave this out")
        with services.sessions() as session:
            position = _position_of(session, last_event_id, JobPosition, of=job_id)
            if logs_after is not None and not last_event_id:
                position = JobPosition(logs=SentRows(floor=logs_after))
            get_job(session, job_id)
        if position.ended:
            return Response(status_code=204)
        _require_room(hub)
        kinds = _kinds(include) or _DEFAULT
        share = services.streams.share_of(caller.user)
        return LiveResponse(
            lambda listener: hub.watching_job(job_id, listener), position, kinds, sha256=caller.sha256, share=share,
            charge=partial(charge_time, services, caller),
        )  # fmt: skip
    _refuse(request, "include", "logs_after", why="only a stream has this parameter; send `Accept: text/event-stream`")
    with services.sessions() as session:
        get_job(session, job_id)
        tag = tag_of(
            versions.of_events(session, job_id, after=history.position(session, job_id, cursor)), request.url.query
        )
        if is_known(tag, if_none_match):
            return unchanged(tag)
        page = history.events(session, job_id, limit=limit, cursor=cursor)
    answer = answer_with(Listed[EventView].model_validate(page), tag)
    answer.headers["Vary"] = "Accept"
    return answer


@routes.get("/events", responses=_FEED, response_class=Response)
def follow_jobs(
    services: ServicesHere,
    caller: CallerHere,
    hub: HubHere,
    project: Annotated[SafeText | None, Query(description="Only jobs of this project")] = None,
    owner: Annotated[SafeText | None, Query(description="Only jobs of this user")] = None,
    label: Annotated[
        list[LabelText],
        Query(description="Only jobs with this label, as `key:value`; repeat it for several labels", max_length=20),
    ] = [],  # noqa: B006
    last_event_id: LastEventId = None,
) -> Response:
    """Follow all jobs live: the `state` of each job that changes, and the `progress` of running jobs.

    For a table of jobs, open the stream first and then read the list. A job may then appear twice: the greater
    `revision` is newer.
    """
    with services.sessions() as session:
        position = _position_of(session, last_event_id, FeedPosition, of=ALL_JOBS)
    _require_room(hub)
    job_filter = FeedFilter(project, owner, tuple(_label(text) for text in label))
    share = services.streams.share_of(caller.user)
    charge = partial(charge_time, services, caller)
    return LiveResponse(hub.watching_all, position, job_filter, sha256=caller.sha256, share=share, charge=charge)


def _require_room(hub: Hub) -> None:
    if hub.is_full:
        raise Unavailable("too many live streams are open, or the service is stopping")


def _refuse(request: Request, *names: str, why: str) -> None:
    wrong = [FieldProblem(name, why, request.query_params[name][:80]) for name in names if name in request.query_params]
    if wrong:
        raise invalid(wrong)


def _position_of(session: Session, last_event_id: str | None, model: type[PositionT], *, of: str) -> PositionT:
    if not last_event_id:
        return model()
    try:
        return position_in(session, last_event_id, model, of=of)
    except InvalidCursor:
        raise invalid([FieldProblem("Last-Event-ID", _WRONG_EVENT_ID, last_event_id[:80])]) from None


def _kinds(values: list[str]) -> frozenset[Kind]:
    names = [name.strip() for value in values for name in value.split(",") if name.strip()]
    wrong = [name for name in names if name not in set(Kind)]
    if wrong:
        why = f"no such kind; allowed: {', '.join(Kind)}"
        proposals = each_meant(wrong, Kind)
        raise invalid(
            [FieldProblem("include", why + more, name[:80]) for name, more in zip(wrong, proposals, strict=True)]
        )
    return frozenset(map(Kind, names))


def _label(text: str) -> tuple[str, str]:
    key, colon, value = text.partition(":")
    if not colon:
        raise invalid([FieldProblem("label", "write it as key:value", text[:80])])
    return key, one_form(value)
