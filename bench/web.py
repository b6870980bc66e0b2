"""A web server of files behind a slow line, in place of an object store. Used by `bench.articles`."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

_PIECE_BYTES = 65_536


class _SlowServer(ThreadingHTTPServer):
    """A server that sends at most `bytes_per_s` in all its answers together."""

    daemon_threads = True

    def __init__(self, folder: Path, bytes_per_s: float) -> None:
        super().__init__(("127.0.0.1", 0), partial(_Handler, directory=str(folder)))
        self._bytes_per_s = bytes_per_s
        self._line = threading.Lock()

    def send(self, content: bytes, line: Any) -> None:
        """Write to a connection as fast as the line allows."""
        for start in range(0, len(content), _PIECE_BYTES):
            piece = content[start : start + _PIECE_BYTES]
            with self._line:
                time.sleep(len(piece) / self._bytes_per_s)
            line.write(piece)


class _Handler(SimpleHTTPRequestHandler):
    """Serves listings, files, and ranges of them; a piece of a file goes through the slow line."""

    server: _SlowServer
    protocol_version = "HTTP/1.1"  # as object stores: connections stay open

    def do_GET(self) -> None:
        path = Path(self.translate_path(self.path))
        if not path.is_file():
            super().do_GET()
            return
        size, range_header = path.stat().st_size, self.headers.get("Range")
        start, _, stop = (range_header or f"bytes=0-{size - 1}").removeprefix("bytes=").partition("-")
        with path.open("rb") as file:
            file.seek(int(start))
            content = file.read(int(stop or size - 1) + 1 - int(start))
        self.send_response(206 if range_header else 200)
        self.send_header("Content-Length", str(len(content)))
        if range_header:
            self.send_header("Content-Range", f"bytes {start}-{int(start) + len(content) - 1}/{size}")
        self.end_headers()
        self.server.send(content, self.wfile)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Print nothing."""


@contextmanager
def serving(folder: Path, *, bytes_per_s: float) -> Iterator[str]:
    """The address of a server of the files below a folder."""
    with _SlowServer(folder, bytes_per_s) as server:
        thread = threading.Thread(target=server.serve_forever, name="slow web server")
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
