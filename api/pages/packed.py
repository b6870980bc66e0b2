"""Sends the files of the page in the form that the build packed with Brotli, to browsers that take it.

Called by `api.main`. Others get the file itself, which `api.middleware.Compression` packs with gzip.
"""

from mimetypes import guess_type
from pathlib import Path

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_SUFFIX = ".br"
_FOLDERS = ("assets", "docs")  # whose files are packed


class PackedFiles:
    """Answers with the packed form of a file in a folder of the page, if there is one and the browser takes Brotli."""

    def __init__(self, app: ASGIApp, folder: Path) -> None:
        self._app = app
        packed = (path for name in _FOLDERS for path in (folder / name).glob(f"*{_SUFFIX}"))
        paths = (f"/{path.parent.name}/{path.name.removesuffix(_SUFFIX)}" for path in packed)
        self._types = {path: guess_type(path)[0] or "application/octet-stream" for path in paths}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        path = scope.get("path", "")
        if scope["type"] != "http" or path not in self._types:
            await self._app(scope, receive, send)
            return
        is_packed = _takes_brotli(Headers(scope=scope))

        async def send_described(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.add_vary_header("Accept-Encoding")
                if is_packed and message["status"] in (200, 206):
                    headers["Content-Type"] = f"{self._types[path]}; charset=utf-8"
                    headers["Content-Encoding"] = "br"
            await send(message)

        await self._app({**scope, "path": path + _SUFFIX} if is_packed else scope, receive, send_described)


def _takes_brotli(headers: Headers) -> bool:
    """Whether a client takes Brotli. A coding with the weight 0 is one that it does not take."""
    for coding in headers.get("accept-encoding", "").split(","):
        name, _, weight = coding.replace(" ", "").partition(";")
        if name.lower() == "br":
            return weight.rstrip("0.") not in ("q", "q=")
    return False
