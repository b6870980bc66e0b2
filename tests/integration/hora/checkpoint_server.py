"""A service with the checkpoints of a job, whose answers can break off or be damaged."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import unquote

import httpx2 as httpx

WEIGHTS = bytes(range(256)) * 2048
FILES: Mapping[str, bytes] = {"model.pt": WEIGHTS, "rank0/optimizer.pt": b"state"}


class CheckpointServer:
    """The checkpoints of job `j`: those of the steps 30, 20 and 10. The second one is the best."""

    def __init__(self) -> None:
        self.files = dict(FILES)
        self.steps = {30: False, 20: True, 10: False}  # and whether it is the best
        self.breaks_after: list[int] = []  # bytes of each answer that breaks off
        self.damages = False
        self.requests: list[tuple[str, str | None]] = []  # paths below the list, and ranges

    def __call__(self, request: httpx.Request) -> httpx.Response:
        _, found, below = unquote(request.url.raw_path.decode().partition("?")[0]).partition("/v1/jobs/j/checkpoints")
        if not found:
            return httpx.Response(404, json={"title": "Job not found"})
        if not below:
            return httpx.Response(200, json={"items": [self._item(*one) for one in self.steps.items()]})
        _, _attempt, _step, path = below.split("/", 3)
        byte_range = request.headers.get("Range")
        self.requests.append((below.removeprefix("/"), byte_range))
        content = self.files[path]
        tag = f'"sha256-{hashlib.sha256(content).hexdigest()}"'
        start = int(byte_range[6:-1]) if byte_range is not None and request.headers["If-Range"] == tag else 0
        sent = bytes(len(content)) if self.damages else content
        return httpx.Response(206 if start else 200, headers={"ETag": tag}, stream=self._stream_of(sent[start:]))

    def _item(self, step: int, is_best: bool) -> dict[str, Any]:
        files = [
            {"path": path, "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for path, content in self.files.items()
        ]
        return {
            "attempt": 1, "step": step, "epoch": step // 10, "saved_at": "2030-01-01T00:00:00Z", "is_best": is_best,
            "bytes": sum(map(len, self.files.values())), "files": files,
        }  # fmt: skip

    def _stream_of(self, content: bytes) -> httpx.SyncByteStream:
        return BreakingStream(content, self.breaks_after.pop(0) if self.breaks_after else None)


class BreakingStream(httpx.SyncByteStream):
    """A body that breaks off after so many bytes, if it does."""

    def __init__(self, content: bytes, stop: int | None) -> None:
        self._content, self._stop = content, stop

    def __iter__(self) -> Iterator[bytes]:
        for start in range(0, len(self._content), 1000):
            if self._stop is not None and start >= self._stop:
                raise httpx.ReadError("cut")
            yield self._content[start : start + 1000]
