"""Sends files, whole or a range of their bytes (RFC 9110). Called by `api.files.sent_files`.

Starlette's own answer opens the file by name after the checks, and also sends what was appended meanwhile. This one
sends from a file that is already open, and never more than it had when it was opened. The bytes of a file in the store
come from `api.store_calls`.
"""

import os
import re
from collections.abc import AsyncIterator
from email.utils import format_datetime
from mimetypes import MimeTypes
from urllib.parse import quote

from anyio import to_thread
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.problems import Problem
from jobs.data.artifact_files import Artifact, OpenArtifact

_CHUNK_BYTES = 256 * 1024
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)
_TYPES = MimeTypes()  # Python's own list, not the machine's, so that every api answers alike


def media_type_of(name: str) -> str:
    """The media type of a file by its name."""
    kind, encoding = _TYPES.guess_type(name)
    return kind if kind is not None and encoding is None else "application/octet-stream"


def byte_range(header: str | None, size: int) -> range | None:
    """The bytes that a Range header asks for; None for all of them, and for a header that is not understood.

    Several ranges are answered with the whole file, as RFC 9110 allows. Raises `Problem` (416) for an empty range.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        part = range(max(size - int(match[2]), 0), size)
    else:
        first, last = int(match[1]), int(match[2] or size)
        if last < first:
            return None
        part = range(first, min(last + 1, size))
    if not part:
        headers = {"Content-Range": f"bytes */{size}"}
        detail = f"the file has {size} bytes"
        raise Problem(416, "range-not-satisfiable", "Range not satisfiable", detail, headers=headers)
    return part


class Download(StreamingResponse):
    """Sends a file, or a part of it, from an iterator of its bytes."""

    def __init__(self, file: Artifact, part: range | None, content: AsyncIterator[bytes]) -> None:
        sent = range(file.bytes) if part is None else part
        headers = download_headers(file) | {"Content-Length": str(len(sent))}
        if part is not None:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{file.bytes}"
        super().__init__(content, 200 if part is None else 206, headers, media_type_of(file.path))


class DiskDownload(Download):
    """Sends an open file of this machine, or a part of it, and closes it."""

    def __init__(self, file: OpenArtifact, part: range | None) -> None:
        self._descriptor = file.descriptor
        sent = range(file.artifact.bytes) if part is None else part
        super().__init__(file.artifact, part, disk_chunks(file.descriptor, sent))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the file, and close it even if the reader goes away."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)


async def disk_chunks(descriptor: int, sent: range) -> AsyncIterator[bytes]:
    """The bytes of a part of an open file."""
    position = sent.start
    while position < sent.stop:
        size = min(_CHUNK_BYTES, sent.stop - position)
        chunk = await to_thread.run_sync(os.pread, descriptor, size, position)
        if not chunk:  # the file was cut: the server breaks the connection, because bytes are missing
            return
        position += len(chunk)
        yield chunk


def download_headers(file: Artifact) -> dict[str, str]:
    """The headers of a file, for any part of it."""
    return {
        "ETag": file.etag,
        "Last-Modified": format_datetime(file.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Encoding": "identity",  # do not compress it on its way: ranges count the bytes of the file
        "Content-Disposition": attachment(file.path.rpartition("/")[2]),
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",  # a job's HTML is not a page
        "X-Content-Type-Options": "nosniff",
    }


def attachment(name: str) -> str:
    """The Content-Disposition with which a browser saves a file under its name."""
    plain = re.sub(r"[^ !#-\[\]-~]|%", "_", name)
    extended = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{extended}'
