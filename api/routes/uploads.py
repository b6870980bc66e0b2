"""Uploads: archives that users send in pieces and register as datasets."""

from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Query, Request, Response
from fastapi.concurrency import run_in_threadpool

from api.callers import Caller, CallerHere, router
from api.deps import Cursor, IfNoneMatch, PageLimit, Services, ServicesHere, only_json
from api.files import stored_uploads, upload_files
from api.files.stored_uploads import STORED_CHUNK_BYTES, ArrivingPiece
from api.files.upload_files import UploadFile
from api.middleware import CHUNK_BYTES
from api.openapi import problems
from api.polling.entity_tags import UNCHANGED, answer_or_304
from api.problems import Problem, UnsupportedBody, invalid
from api.processes.code_reading import require_code_allowed
from jobs.data import uploads
from jobs.data.uploads import UploadGone
from jobs.db.tables import Upload
from jobs.model.problems import FieldProblem
from jobs.people import audit
from jobs.runtime.settings import Settings
from jobs.views.base import Listed
from jobs.views.data import NewUpload, UploadView

routes = router("datasets")

_OCTETS = "application/octet-stream"
_WRITE_BYTES = 1024 * 1024
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
    """Start an upload. Then send the pieces of the archive to `/content`, one after the other."""
    settings = services.settings
    if new.purpose == "code":
        require_code_allowed(services, caller)
    what, most_bytes = _limit_of(settings, new.purpose)
    if new.size_bytes > most_bytes:
        message = f"{what} may have at most {most_bytes} bytes here"
        raise invalid([FieldProblem("size_bytes", message, str(new.size_bytes))])
    in_store = services.store.is_set
    if not in_store:
        upload_files.require_room(settings, new.size_bytes)
    with services.sessions.begin() as session:
        row = uploads.start(session, new, owner=caller.user, most_open=settings.max_open_uploads, in_store=in_store)
        audit.record(session, caller.actor, "upload.started", row.id, size_bytes=new.size_bytes)
        view = upload_view(row)
    response.headers["Location"] = f"/v1/uploads/{view.id}"
    return view


@routes.get("/uploads")
def list_uploads(
    services: ServicesHere, caller: CallerHere, limit: PageLimit = 50, cursor: Cursor = None
) -> Listed[UploadView]:
    """List your own uploads that are not datasets yet."""
    with services.sessions() as session:
        page = uploads.list_uploads(session, owner=caller.user, limit=limit, cursor=cursor)
    return Listed(items=[upload_view(row) for row in page.items], next_cursor=page.next_cursor)


@routes.get("/uploads/{upload_id}", response_model=UploadView, responses=UNCHANGED | _NO_SUCH_UPLOAD)
def get_upload(
    upload_id: UploadId, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Get an upload. Its next piece starts at `received_bytes`. Only for its owner and admins."""
    return answer_or_304(upload_view(_owned_upload(services, caller, upload_id)), if_none_match)


@routes.put(
    "/uploads/{upload_id}/content",
    responses=_NO_SUCH_UPLOAD
    | problems(
        s409="The piece has the wrong offset, or another piece is being sent",
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
    offset: Annotated[int, Query(ge=0, lt=2**53, description="The position of the piece in the archive, in bytes")],
) -> UploadView:
    """Send the next piece of an upload, of at most `chunk_bytes`. Sending a piece again is allowed.

    Send the pieces one after the other. A piece with a wrong offset gets 409. Continue at the upload's
    `received_bytes`.
    """
    received = request.headers.get("content-type")
    if received is None or received.partition(";")[0].strip().lower() != _OCTETS:
        raise UnsupportedBody(received, _OCTETS)
    row = await run_in_threadpool(_owned_upload, services, caller, upload_id)
    if row.in_store:
        return await _to_store(request, services, row, offset)
    return await _to_disk(request, services, caller, upload_id, offset)


@routes.delete(
    "/uploads/{upload_id}",
    status_code=204,
    responses=_NO_SUCH_UPLOAD | problems(s409="A dataset is being made from it"),
)
def remove_upload(upload_id: UploadId, services: ServicesHere, caller: CallerHere) -> None:
    """Remove an upload and its bytes. Only for its owner and admins. Removing it again changes nothing."""
    row = _owned_upload(services, caller, upload_id)
    with services.sessions.begin() as session:
        uploads.remove(session, upload_id)
        audit.record(session, caller.actor, "upload.removed", upload_id)
    if not row.in_store:  # a worker removes pieces from the store
        upload_files.remove(services.settings.datasets, upload_id)


def _limit_of(settings: Settings, purpose: str) -> tuple[str, int]:
    """What is sent for a purpose, and how many bytes it may have."""
    match purpose:
        case "code":
            return "an archive of code", int(settings.max_code_mb * 1e6)
        case "run":
            return "a run", int(settings.max_import_mb * 1e6)
        case _:
            return "an archive", int(settings.max_upload_gb * 1e9)


def upload_view(row: Upload) -> UploadView:
    """The view of an upload's row."""
    fields = {name: getattr(row, name) for name in UploadView.model_fields if name != "chunk_bytes"}
    return UploadView(**fields, chunk_bytes=STORED_CHUNK_BYTES if row.in_store else CHUNK_BYTES)


def _owned_upload(services: Services, caller: Caller, upload_id: str) -> Upload:
    with services.sessions() as session:
        row = uploads.get_upload(session, upload_id)
    caller.require_owner(f"upload {upload_id}", row.owner)
    return row


async def _to_store(request: Request, services: Services, row: Upload, offset: int) -> UploadView:
    """Put the piece in the body into the store.

    Other requests may send the same one meanwhile: the first one that is stored counts.
    """
    if row.removed_at is not None:
        raise UploadGone(row.id)
    if _was_sent_before(row, offset, request):
        return upload_view(row)
    arriving = ArrivingPiece(row.id, offset)
    await _receive(request, row, arriving.write)
    return upload_view(await stored_uploads.store_piece(services, row, arriving))


async def _to_disk(request: Request, services: Services, caller: Caller, upload_id: str, offset: int) -> UploadView:
    """Append the piece in the body to the file of the upload."""
    await run_in_threadpool(upload_files.require_room, services.settings, 0)
    file = await run_in_threadpool(UploadFile, services.settings.datasets, upload_id)
    try:
        # This request has locked the file by now: no other one changes the upload.
        row = await run_in_threadpool(_owned_upload, services, caller, upload_id)
        if row.removed_at is not None:
            upload_files.remove(services.settings.datasets, upload_id)  # this request may have created it again
            raise UploadGone(upload_id)
        was_sent_before = _was_sent_before(row, offset, request)
        if file.size_bytes < row.received_bytes:
            raise UploadGone(row.id)
        if was_sent_before:
            return upload_view(row)
        size_bytes = await _append(request, file, row)
        return await run_in_threadpool(_advance, services, row, size_bytes)
    finally:
        file.close()


def _was_sent_before(row: Upload, offset: int, request: Request) -> bool:
    """Whether the row has the piece already. Refuse a piece that does not start at the end of the last one."""
    length = request.headers.get("content-length")
    size_bytes = int(length) if length is not None and length.isdecimal() else None
    was_sent_before = size_bytes is not None and offset + size_bytes <= row.received_bytes
    if offset > row.received_bytes or (offset < row.received_bytes and not was_sent_before):
        detail = f"the next piece starts at {row.received_bytes}, this one at {offset}"
        raise Problem(409, "wrong-offset", "Wrong offset", detail)
    if size_bytes is not None and offset + size_bytes > row.size_bytes:
        raise _too_long(row)
    return offset < row.received_bytes


async def _append(request: Request, file: UploadFile, row: Upload) -> int:
    """Append the body to the file; returns how many bytes it had."""
    try:
        size_bytes = await _receive(request, row, file.write)
        await run_in_threadpool(file.flush)
    except Problem:
        await run_in_threadpool(file.cut, row.received_bytes)
        raise
    return size_bytes


async def _receive(request: Request, row: Upload, write: Callable[[int, bytes], None]) -> int:
    """Write the body, a little at a time, from the end of the last piece on; returns how many bytes it had."""
    end = row.received_bytes
    buffer = bytearray()
    async for chunk in request.stream():
        buffer += chunk
        if end + len(buffer) > row.size_bytes:
            raise _too_long(row)
        if len(buffer) >= _WRITE_BYTES:
            await run_in_threadpool(write, end, bytes(buffer))
            end += len(buffer)
            buffer.clear()
    await run_in_threadpool(write, end, bytes(buffer))
    return end + len(buffer) - row.received_bytes


def _too_long(row: Upload) -> Problem:
    return invalid([FieldProblem("", f"this piece ends after the size_bytes of the upload: {row.size_bytes}")])


def _advance(services: Services, row: Upload, size_bytes: int) -> UploadView:
    with services.sessions.begin() as session:
        return upload_view(uploads.advance(session, row.id, offset=row.received_bytes, size_bytes=size_bytes))
