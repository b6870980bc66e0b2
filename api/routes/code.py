"""Archives of code: send one that was uploaded, look into it, compare it with another, and download it."""

import os
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Any

from fastapi import Body, Depends, Path, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import PlainTextResponse, StreamingResponse

from api.callers import CODE_ONLY, Caller, CallerHere, router
from api.costs import PROCESS_TAKES_A_TURN, TAKES_A_TURN
from api.deps import IfNoneMatch, Services, ServicesHere, as_json, only_json
from api.files.opened_uploads import opened, remove_bytes, remove_upload, usable_upload, wrong_upload
from api.openapi import CREATED, problems
from api.polling.entity_tags import UNCHANGED, answer_or_304, is_known, tag_of
from api.problems import Problem
from api.processes import code_reading
from api.processes.code_reading import require_code_allowed
from jobs.data import code, uploads
from jobs.data.code import NewCode
from jobs.data.code_archives import BadArchive
from jobs.data.code_texts import MOST_TEXT_BYTES
from jobs.data.uploads import UploadGone, UploadInUse
from jobs.db.tables import Upload
from jobs.model.scopes import Scope
from jobs.people import audit
from jobs.suggestions import meant
from jobs.views.code import CodeDifferenceView, CodeFileView, CodeView, FileDifferenceView, NewCodeArchive

routes = router("code")

_NEW: dict[str, Any] = {"upload": {"summary": "An archive that was uploaded", "value": {"upload": "5r0x8b2k9m1d"}}}
_SENT: dict[int | str, dict[str, Any]] = {
    200: {"model": CodeView, "description": "The same archive was sent before"},
    **CREATED,
}
_NO_SUCH_CODE = problems(s404="No such archive, or the caller may not see it")
_BYTES: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The archive",
        "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
    }
}
_TEXT: dict[int | str, dict[str, Any]] = {
    200: {"description": "The text of the file", "content": {"text/plain": {"schema": {"type": "string"}}}}
}
_NO_TEXT = "The file is no text, is longer than 512 KiB, or takes too long to find"
_FOR_GOOD = "private, max-age=31536000, immutable"
_MOST_COMPARED_BYTES = 16 * 1024 * 1024  # of all files together, whose lines are compared
_KINDS = {b"PK": "zip", b"\x1f\x8b": "tar.gz"}

Digest = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{64}$",
        json_schema_extra={"format": "digest"},
        description="SHA-256 of the archive's bytes",
        examples=["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"],
    ),
]
OtherDigest = Annotated[
    str,
    Path(
        pattern="^[0-9a-f]{64}$",
        json_schema_extra={"format": "digest"},
        description="SHA-256 of the bytes of the other archive",
        examples=["2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"],
    ),
]
CodePath = Annotated[
    str,
    Path(
        json_schema_extra={"format": "code-path"},
        description="The file's path, as in the list of files",
        examples=["train.py"],
    ),
]


@routes.post(
    "/code",
    status_code=201,
    response_model=CodeView,
    responses=_SENT
    | problems(
        s409="The stack runs no code, or a request still sends a piece of the upload",
        s413="The body is too large",
        s415="The body is not JSON",
        s507="The disk is full",
    ),
    dependencies=[CODE_ONLY, PROCESS_TAKES_A_TURN, Depends(only_json)],
)
def send_code(
    services: ServicesHere, caller: CallerHere, new: Annotated[NewCodeArchive, Body(openapi_examples=_NEW)]
) -> Response:
    """Store an uploaded archive of code under its digest, which a spec can then name. The upload is used up.

    Start the upload with `purpose: code`. An archive that was sent before gets 200 and is not stored twice.
    """
    require_code_allowed(services, caller)
    most_bytes = int(services.settings.max_code_mb * 1e6)
    with opened(services, usable_upload(services, caller, new.upload, "an archive of code", most_bytes)) as file:
        # Nobody changes its bytes now.
        row = usable_upload(services, caller, new.upload, "an archive of code", most_bytes)
        try:
            archive = _archive_in(file, row)
        except BadArchive as error:
            remove_upload(services, row)  # nothing can ever be made from it
            raise wrong_upload(new.upload, str(error)) from None
        answer = _stored(services, caller, new.upload, archive, file)
    remove_bytes(services, row)
    return answer


def _archive_in(file: int, row: Upload) -> NewCode:
    """What is in an uploaded archive. Raises `BadArchive`, and 422 at the field."""
    there_bytes = os.fstat(file).st_size
    if there_bytes != row.size_bytes:
        raise wrong_upload(row.id, f"{there_bytes} of its {row.size_bytes} bytes are on the disk: send it again")
    archive = code_reading.look_at(file)
    if row.sha256 not in (None, archive.digest):
        message = f"it has another SHA-256 than its sender stated ({archive.digest}): send it again"
        raise wrong_upload(row.id, message)
    return archive


def _stored(services: Services, caller: Caller, upload_id: str, archive: NewCode, file: int) -> Response:
    with services.sessions.begin() as session:
        try:
            uploads.for_dataset(session, upload_id)
        except (UploadGone, UploadInUse) as error:  # another request was faster
            raise wrong_upload(upload_id, str(error)) from None
        is_new = code.store(session, archive, code_reading.pieces_of(file), owner=caller.user)
        uploads.mark_removed(session, upload_id)
        audit.record(session, caller.actor, "code.sent", archive.digest, size_bytes=archive.size_bytes)
        row = code.get_code(session, archive.digest, user=caller.user, is_admin=caller.may(Scope.ADMIN))
        view = CodeView.model_validate(row)
    tag = {"ETag": tag_of(view.model_dump_json())}
    return as_json(view, 201, tag | {"Location": f"/v1/code/{view.digest}"}) if is_new else as_json(view, headers=tag)


@routes.get("/code/{digest}", response_model=CodeView, responses=UNCHANGED | _NO_SUCH_CODE, dependencies=[TAKES_A_TURN])
def get_code(digest: Digest, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get an archive's files. Only for who sent it, and for everybody once a job runs it."""
    with services.sessions() as session:
        row = code.get_code(session, digest, user=caller.user, is_admin=caller.may(Scope.ADMIN))
        view = CodeView.model_validate(row)
    return answer_or_304(view, if_none_match)


@routes.get("/code/{digest}/archive", response_class=Response, responses=_BYTES | UNCHANGED | _NO_SUCH_CODE)
def download_code(
    digest: Digest, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Download an archive: a .tar.gz, .tar or .zip, as it was sent. Its bytes have the digest as their SHA-256."""
    with services.sessions() as session:
        row = code.get_code(session, digest, user=caller.user, is_admin=caller.may(Scope.ADMIN), with_files=False)
        size_bytes = row.size_bytes
        kept = {"ETag": f'"{digest}"', "Cache-Control": _FOR_GOOD}
        if is_known(kept["ETag"], if_none_match):
            return Response(status_code=304, headers=kept)
        first = code.piece_of(session, digest, 0)
    kind = _KINDS.get(first[:2], "tar")
    sent = kept | {
        "Content-Length": str(size_bytes),
        "Content-Encoding": "identity",
        "Content-Disposition": f'attachment; filename="code-{digest[:12]}.{kind}"',
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    return StreamingResponse(_pieces(services, digest, first, size_bytes), 200, sent, "application/octet-stream")


@routes.get(
    "/code/{digest}/files/{path:path}",
    response_class=PlainTextResponse,
    responses=_TEXT | UNCHANGED | problems(s404="No such archive or file, or the caller may not see it", s409=_NO_TEXT),
    dependencies=[PROCESS_TAKES_A_TURN],
)
def get_code_text(
    digest: Digest, path: CodePath, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Get the text of a file of an archive, up to 512 KiB in UTF-8."""
    files = _files_of(services, caller, digest)
    file = files.get(path)
    if file is None:
        detail = f"the code {digest[:12]} has no such file{meant(path, files)}"
        raise Problem(404, "code-file-not-found", "File not found", detail)
    headers = {
        "ETag": f'"{file.sha256}"',
        "Cache-Control": _FOR_GOOD,
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
    }
    if is_known(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    text = None
    if file.size_bytes <= MOST_TEXT_BYTES:
        with _readable(), code_reading.fetched(services.sessions, digest) as archive:
            text = code_reading.text_in(archive, path)
    if text is None:
        detail = f"the file has {file.size_bytes} bytes, and is no text or is too long: download the archive"
        raise Problem(409, "no-text", "No text", detail)
    return PlainTextResponse(text, headers=headers)


@routes.get(
    "/code/{digest}/diff/{other}",
    response_model=CodeDifferenceView,
    responses=UNCHANGED | _NO_SUCH_CODE | problems(s409="It takes too long to compare them"),
    dependencies=[PROCESS_TAKES_A_TURN],
)
def compare_code(
    digest: Digest, other: OtherDigest, services: ServicesHere, caller: CallerHere, if_none_match: IfNoneMatch = None
) -> Response:
    """Get the files that differ between two archives, from the first to the other, with their lines.

    Lines are shown of texts up to 512 KiB, and of about a megabyte of differences in all: those of the shortest files.
    """
    before, after = (_files_of(services, caller, each) for each in (digest, other))
    headers = {"ETag": f'"{digest[:32]}-{other[:32]}"', "Cache-Control": _FOR_GOOD}
    if is_known(headers["ETag"], if_none_match):
        return Response(status_code=304, headers=headers)
    changes = {
        path: "added" if path not in before else "removed" if path not in after else "changed"
        for path in sorted(before.keys() | after.keys())
        if path not in before or path not in after or before[path].sha256 != after[path].sha256
    }
    fetched = partial(code_reading.fetched, services.sessions)
    with _readable(), fetched(digest) as old, fetched(other) as new:
        hunks = code_reading.hunks_between(old, new, _short_enough(changes, before, after)) if changes else {}
    files = [
        FileDifferenceView(path=path, change=change, hunks=hunks.get(path))  # type: ignore[arg-type]
        for path, change in changes.items()
    ]
    return as_json(CodeDifferenceView(before=digest, after=other, files=files), headers=headers)


@contextmanager
def _readable() -> Iterator[None]:
    """409 if an archive takes too long to look into."""
    try:
        yield
    except BadArchive as error:
        raise Problem(409, "code-unreadable", "Code cannot be shown", f"{error}; download the archive") from None


def _files_of(services: Services, caller: Caller, digest: str) -> dict[str, CodeFileView]:
    """The files of an archive that the caller may see, by path."""
    with services.sessions() as session:
        row = code.get_code(session, digest, user=caller.user, is_admin=caller.may(Scope.ADMIN))
        return {file.path: file for file in CodeView.model_validate(row).files}


def _short_enough(paths: Iterable[str], *sides: Mapping[str, CodeFileView]) -> list[str]:
    """The files whose lines are compared: the shortest ones, as many as may be."""
    sizes = {path: [side[path].size_bytes for side in sides if path in side] for path in paths}
    left, chosen = _MOST_COMPARED_BYTES, list[str]()
    for path in sorted(sizes, key=lambda path: sum(sizes[path])):
        left -= sum(sizes[path])
        if left < 0:
            break
        if max(sizes[path]) <= MOST_TEXT_BYTES:
            chosen.append(path)
    return chosen


async def _pieces(services: Services, digest: str, first: bytes, size_bytes: int) -> AsyncIterator[bytes]:
    """The bytes of an archive. A slow reader holds no connection of the database."""
    yield first
    for number in range(1, -(-size_bytes // code.PIECE_BYTES)):
        yield await run_in_threadpool(_piece, services, digest, number)


def _piece(services: Services, digest: str, number: int) -> bytes:
    with services.sessions() as session:
        return code.piece_of(session, digest, number)
