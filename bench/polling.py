"""A cheap client that polls paths over several connections, in a process of its own. Used by `bench.api`.

    python -m bench.polling '{"port": ..., "paths": [...], "headers": {...}, "connections": 16, "seconds": 5}'

It prints the result as JSON. A connection sends its next request when it has the answer to the one before, or with
`per_s` at that rate. Connections share the paths equally. With `tagged` a connection first fetches the tag of each path
and sends it with the later requests.
"""

import asyncio
import json
import sys
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from fastapi import FastAPI


@dataclass(frozen=True)
class Load:
    """The requests: which paths, over how many connections, for how long."""

    port: int
    paths: list[str]
    host: str = "127.0.0.1"
    headers: Mapping[str, str] = field(default_factory=dict)
    connections: int = 16
    seconds: float = 5.0
    per_s: float | None = None  # of each connection; None: as many as it can
    tagged: bool = False


@dataclass
class Result:
    """The measured figures."""

    requests: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    bytes: int = 0
    latencies_s: list[float] = field(default_factory=list)


class Connection:
    """One HTTP/1.1 connection that stays open."""

    def __init__(self, load: Load, result: Result) -> None:
        self._load, self._result = load, result
        own = "".join(f"{name}: {value}\r\n" for name, value in load.headers.items())
        self._head = f" HTTP/1.1\r\nHost: {load.host}\r\n{own}"

    async def poll(self, paths: list[str], until: float) -> None:
        """Request the paths in turn."""
        reader, writer = await asyncio.open_connection(self._load.host, self._load.port)
        tags: dict[str, str] = {}
        try:
            number, started_at = 0, time.perf_counter()
            while time.perf_counter() < until:
                path = paths[number % len(paths)]
                if self._load.per_s is not None:
                    await asyncio.sleep(max(0.0, started_at + number / self._load.per_s - time.perf_counter()))
                tag = tags.get(path)
                new_tag = await self._get(reader, writer, path, tag)
                if self._load.tagged and new_tag:
                    tags[path] = new_tag
                number += 1
        finally:
            writer.close()

    async def _get(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, path: str, tag: str | None
    ) -> str | None:
        condition = f"If-None-Match: {tag}\r\n" if tag else ""
        sent_at = time.perf_counter()
        writer.write(f"GET {path}{self._head}{condition}\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        lines = head.split("\r\n")
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
        length = int(headers.get("content-length", 0))
        await reader.readexactly(length)
        status = int(lines[0].split(" ")[1])
        if tag or not self._load.tagged or status >= 400:
            self._result.requests += 1
            self._result.statuses[status] += 1
            self._result.bytes += length
            self._result.latencies_s.append(time.perf_counter() - sent_at)
        return headers.get("etag")


async def run(load: Load) -> dict[str, Any]:
    """Send the requests; returns the figures."""
    result, started_at = Result(), time.perf_counter()
    starts = [number % len(load.paths) for number in range(load.connections)]
    shares = [load.paths[start :: load.connections] for start in starts]
    await asyncio.gather(*(Connection(load, result).poll(share, started_at + load.seconds) for share in shares))
    lasted_s = time.perf_counter() - started_at
    latencies_s = sorted(result.latencies_s)
    at = {f"p{share}_ms": round(1e3 * latencies_s[int(share / 100 * (len(latencies_s) - 1))], 2) for share in (50, 99)}
    return {
        "per_s": round(result.requests / lasted_s, 1), "requests": result.requests, "statuses": result.statuses, **at
    }  # fmt: skip


def bare() -> FastAPI:
    """A bare route of FastAPI, for uvicorn's --factory."""
    app = FastAPI()

    @app.get("/bare/{name}")
    async def get_bare(name: str) -> dict[str, str]:
        return {"name": name}

    return app


if __name__ == "__main__":
    print(json.dumps(asyncio.run(run(Load(**json.loads(sys.argv[1]))))))
