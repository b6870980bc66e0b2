"""Files as answers: whole or a range of their bytes, as of RFC 9110. Called by the routes of artifacts.

Starlette's own answer opens the file by its name, after it was looked at, and sends what it has grown by meanwhile.
This one sends from a file that is open already, and never more than was there when it was opened.
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
from jobs.data.artifact_files import OpenArtifact

_CHUNK_BYTES = 256 * 1024
_RANGE = re.compile(r"bytes=[ \t]*([0-9]{0,18})-([0-9]{0,18})[ \t]*", re.IGNORECASE)
_TYPES = MimeTypes()  # Python's own list, and not that of the machine: every api says the same


def media_type_of(name: str) -> str:
    """The media type of a file by its name."""
    kind, encoding = _TYPES.guess_type(name)
    return kind if kind is not None and encoding is None else "application/octet-stream"


def byte_range(header: str | None, size: int) -> range | None:
    """The bytes that a Range header asks for; None for all of them, also where the header is not understood.

    Several ranges are answered with the whole, as is allowed. Raises `Problem` (416) where no byte is in the range.
    """
    match = _RANGE.fullmatch(header or "")
    if match is None or match[1] == match[2] == "":
        return None
    if match[1] == "":
        wanted = range(max(size - int(match[2]), 0), size)
    else:
        first, last = int(match[1]), int(match[2] or size)
        if last < first:
            return None
        wanted = range(first, min(last + 1, size))
    if not wanted:
        told = {"Content-Range": f"bytes */{size}"}
        raise Problem(416, "range-not-satisfiable", "Range not satisfiable", f"there are {size} bytes", headers=told)
    return wanted


class Download(StreamingResponse):
    """Sends an open file, or a part of it, and closes it."""

    def __init__(self, file: OpenArtifact, part: range | None, *, only_head: bool) -> None:
        self._descriptor = file.descriptor
        size = file.artifact.bytes
        sent = range(size) if part is None else part
        headers = download_headers(file) | {"Content-Length": str(len(sent))}
        if part is not None:
            headers["Content-Range"] = f"bytes {part.start}-{part.stop - 1}/{size}"
        content = self._chunks(range(0) if only_head else sent)
        super().__init__(content, 200 if part is None else 206, headers, media_type_of(file.artifact.path))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it; whoever goes away in the middle leaves no file open."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            os.close(self._descriptor)

    async def _chunks(self, sent: range) -> AsyncIterator[bytes]:
        position = sent.start
        while position < sent.stop:
            size = min(_CHUNK_BYTES, sent.stop - position)
            chunk = await to_thread.run_sync(os.pread, self._descriptor, size, position)
            if not chunk:  # it was cut: the server breaks the connection, for less than was promised
                return
            position += len(chunk)
            yield chunk


def download_headers(file: OpenArtifact) -> dict[str, str]:
    """What is said of a file, whichever part of it is sent."""
    artifact = file.artifact
    return {
        "ETag": artifact.etag,
        "Last-Modified": format_datetime(artifact.modified_at, usegmt=True),
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-cache",
        "Content-Encoding": "identity",  # not to be compressed on its way: ranges are of the bytes of the file
        "Content-Disposition": _attachment(artifact.path.rpartition("/")[2]),
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",  # a job's HTML is no page
        "X-Content-Type-Options": "nosniff",
    }


def _attachment(name: str) -> str:
    plain = re.sub(r"[^ !#-\[\]-~]|%", "_", name)
    extended = "" if plain == name else f"; filename*=UTF-8''{quote(name, safe='')}"
    return f'attachment; filename="{plain}"{extended}'
