"""Several files of a job as one tar archive, which is made while it is sent. Called by `api.routes.artifacts`.

Each file is opened when its turn comes, and is sent as long as it was then. So the length of the archive is not known
before. If a file is gone by then, or ends too early, the connection is broken: no archive looks whole without being so.
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from tarfile import BLOCKSIZE, PAX_FORMAT, TarInfo

from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from api.files.downloads import attachment
from jobs.data.artifact_files import Artifact

MEDIA_TYPE = "application/octet-stream"  # as for all files: public generators of clients know no other

Opened = Callable[[str], AbstractAsyncContextManager[tuple[Artifact, AsyncIterator[bytes]]]]


class BrokenOff(Exception):
    """A file cannot be sent to its end."""


class Archive(StreamingResponse):
    """Sends the files with these paths, in a folder of the name `top`. `opened` gives a file, and its bytes."""

    def __init__(self, top: str, paths: Sequence[str], opened: Opened) -> None:
        self._content = _tar_of(top, paths, opened)
        headers = {
            "Cache-Control": "no-store",
            "Content-Encoding": "identity",  # most files are packed already
            "Content-Disposition": attachment(f"{top}.tar"),
            "X-Content-Type-Options": "nosniff",
        }
        super().__init__(self._content, 200, headers, MEDIA_TYPE)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the archive, and close the file that is open even if the reader goes away."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            await self._content.aclose()


async def _tar_of(top: str, paths: Sequence[str], opened: Opened) -> AsyncGenerator[bytes]:
    for path in paths:
        async with opened(path) as (file, content):
            yield _header(top, file)
            missing = file.bytes
            async for chunk in content:
                missing -= len(chunk)
                yield chunk
            if missing:
                raise BrokenOff(f"{path} ends too early")
            yield bytes(-file.bytes % BLOCKSIZE)
    yield bytes(2 * BLOCKSIZE)


def _header(top: str, file: Artifact) -> bytes:
    info = TarInfo(f"{top}/{file.path}")
    info.size, info.mtime = file.bytes, int(file.modified_at.timestamp())
    return info.tobuf(PAX_FORMAT)  # for long names, names in any script, and files of any size
