"""Archives that come in pieces, to become datasets: begin, send, look up, give up."""

from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api import upload_files
from api.callers import Caller, CallerHere, router
from api.deps import Cursor, IfNoneMatch, PageLimit, Services, ServicesHere, only_json
from api.middleware import CHUNK_BYTES
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_once
from api.problems import Problem, UnsupportedBody, invalid
from api.upload_files import UploadFile
from jobs.data import uploads
from jobs.data.uploads import UploadGone
from jobs.db.tables import Upload
from jobs.model.spec import FieldProblem
from jobs.people import audit
from jobs.views.base import Listed
from jobs.views.data import NewUpload, UploadView

routes = router("datasets")

_OCTETS = "application/octet-stream"
_WRITTEN_AT_ONCE_BYTES = 1024 * 1024
_NEW: dict[str, Any] = {
    "archive": {
        "summary": "A .zip with a folder of images for each class",
        "value": {"filename": "chips.zip", "size_bytes": 734003200},
    }
}
_NO_SUCH_UPLOAD = problems(s404="No such upload")
_PIECE = {
    "requestBody": {"required": True, "content": {_OCTETS: {"schema": {"type": "string", "format": "binary"}}}},
}

UploadId = Annotated[str, Path(pattern="^[0-9a-z]{1,32}$", description="The upload's id", examples=["5r0x8b2k9m1d"])]


@routes.post(
    "/uploads",
    status_code=201,
    responses=problems(
        s409="The caller has too many open uploads", s415="The body is not JSON", s507="The disk is full"
    ),
    dependencies=[Depends(only_json)],
)
def start_upload(
    services: ServicesHere,
    caller: CallerHere,
    response: Response,
    new: Annotated[NewUpload, Body(openapi_examples=_NEW)],
) -> UploadView:
    """Begin to upload an archive: its pieces are then put to its content, one after the other."""
    settings = services.settings
    most_bytes = int(settings.max_upload_gb * 1e9)
    if new.size_bytes > most_bytes:
        problem = FieldProblem("size_bytes", f"an archive may have {most_bytes} bytes here", str(new.size_bytes))
        raise invalid([problem])
    upload_files.require_room(settings.datasets, new.size_bytes)
    with services.sessions.begin() as session:
        row = uploads.start(session, new, owner=caller.user, most_open=settings.max_open_uploads)
        audit.record(session, caller.actor, "upload.started", row.id, size_bytes=new.size_bytes)
        view = upload_view(row)
    response.headers["Location"] = f"/v1/uploads/{view.id}"
    return view


@routes.get("/uploads")
def list_uploads(
    services: ServicesHere, caller: CallerHere, limit: PageLimit = 50, cursor: Cursor = None
) -> Listed[UploadView]:
    """List the caller's own uploads that became no dataset yet, page by page."""
    with services.sessions() as session:
        page = uploads.list_uploads(session, owner=caller.user, limit=limit, cursor=cursor)
    return Listed(items=[upload_view(row) for row in page.items], next_cursor=page.next_cursor)


@routes.get("/uploads/{upload_id}", response_model=UploadView, responses=UNCHANGED | _NO_SUCH_UPLOAD)
def get_upload(
    upload_id: UploadId, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Look an upload up: `received_bytes` is where its next piece begins. Its owner and admins only."""
    return answer_once(upload_view(_own(services, caller, upload_id)), if_none_match)


@routes.put(
    "/uploads/{upload_id}/content",
    responses=_NO_SUCH_UPLOAD
    | problems(
        s409="The piece begins elsewhere, or another is being sent",
        s410="The upload became a dataset, or was removed",
        s413="The piece is too large",
        s415=f"The body is not {_OCTETS}",
        s507="The disk is full",
    ),
    openapi_extra=_PIECE,
)
async def put_upload_content(
    upload_id: UploadId,
    request: Request,
    services: ServicesHere,
    caller: CallerHere,
    offset: Annotated[int, Query(ge=0, lt=2**53, description="Where in the archive the piece begins")],
) -> UploadView:
    """Send the next piece of an upload, of at most `chunk_bytes`. A piece that came before may come again.

    Pieces come in order: one that begins elsewhere is answered with 409, and the upload says where to go on.
    """
    received = request.headers.get("content-type")
    if received is None or received.partition(";")[0].strip().lower() != _OCTETS:
        raise UnsupportedBody(received, _OCTETS)
    await run_in_threadpool(_own, services, caller, upload_id)
    file = await run_in_threadpool(UploadFile, services.settings.datasets, upload_id)
    try:
        # The file is ours by now: nobody moves the end of what is there.
        row = await run_in_threadpool(_own, services, caller, upload_id)
        if row.removed_at is not None:
            upload_files.remove(services.settings.datasets, upload_id)  # this request may have made it anew
            raise UploadGone(upload_id)
        _check_place(row, file, offset, request.headers.get("content-length"))
        if offset < row.received_bytes:
            return upload_view(row)
        size_bytes = await _written(request, file, row)
        return await run_in_threadpool(_advanced, services, row, size_bytes)
    finally:
        file.close()


@routes.delete(
    "/uploads/{upload_id}",
    status_code=204,
    responses=_NO_SUCH_UPLOAD | problems(s409="A dataset is made of it"),
)
def remove_upload(upload_id: UploadId, services: ServicesHere, caller: CallerHere) -> None:
    """Give an upload up and remove its bytes. Its owner and admins only. Asking again is fine."""
    _own(services, caller, upload_id)
    with services.sessions.begin() as session:
        uploads.remove(session, upload_id)
        audit.record(session, caller.actor, "upload.removed", upload_id)
    upload_files.remove(services.settings.datasets, upload_id)


def upload_view(row: Upload) -> UploadView:
    """The view of an upload's row."""
    fields = {name: getattr(row, name) for name in UploadView.model_fields if name != "chunk_bytes"}
    return UploadView(**fields, chunk_bytes=CHUNK_BYTES)


def _own(services: Services, caller: Caller, upload_id: str) -> Upload:
    with services.sessions() as session:
        row = uploads.get_upload(session, upload_id)
    caller.require_owner(f"upload {upload_id}", row.owner)
    return row


def _check_place(row: Upload, file: UploadFile, offset: int, length: str | None) -> None:
    """Refuse a piece that neither goes on where the last one ended nor has come before."""
    size_bytes = int(length) if length is not None and length.isdecimal() else None
    came_before = size_bytes is not None and offset + size_bytes <= row.received_bytes
    if offset > row.received_bytes or (offset < row.received_bytes and not came_before):
        detail = f"the next piece begins at {row.received_bytes}, and this one at {offset}"
        raise Problem(409, "wrong-offset", "Wrong offset", detail)
    if size_bytes is not None and offset + size_bytes > row.size_bytes:
        raise _too_long(row)
    if file.size_bytes < row.received_bytes:
        raise UploadGone(row.id)


async def _written(request: Request, file: UploadFile, row: Upload) -> int:
    """Write the body behind what is there, never more than a little of it in memory; how many bytes it had."""
    start = end = row.received_bytes
    waiting = bytearray()
    try:
        async for chunk in request.stream():
            waiting += chunk
            if end + len(waiting) > row.size_bytes:
                raise _too_long(row)
            if len(waiting) >= _WRITTEN_AT_ONCE_BYTES:
                await run_in_threadpool(file.write, end, bytes(waiting))
                end += len(waiting)
                waiting.clear()
        await run_in_threadpool(file.write, end, bytes(waiting))
    except Problem:
        await run_in_threadpool(file.cut, start)
        raise
    await run_in_threadpool(file.flush)
    return end + len(waiting) - start


def _too_long(row: Upload) -> Problem:
    return invalid(
        [FieldProblem("", f"the archive was said to have {row.size_bytes} bytes, and this goes beyond them")]
    )


def _advanced(services: Services, row: Upload, size_bytes: int) -> UploadView:
    with services.sessions.begin() as session:
        return upload_view(uploads.advance(session, row.id, offset=row.received_bytes, size_bytes=size_bytes))
