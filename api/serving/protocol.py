"""Reads the requests of a connection: uvicorn's httptools protocol, with limits. Made by `api.serving.server`.

uvicorn and llhttp read headers of any length, keep any number of requests that were sent at once, and wait for ever.
"""

import asyncio
from typing import TYPE_CHECKING, Any, Literal, cast

import httptools
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from api.problems import Problem
from api.serving.connections import Connections, State, Wait
from api.serving.refusals import HeadersTooLarge, Malformed, TooSlow, answer_of

if TYPE_CHECKING:
    from uvicorn._types import ASGI3Application

MAX_HEAD_BYTES = 64 * 1024  # of a request: its line, headers, trailers, and extensions of chunks
MAX_PIPELINED = 32  # requests that wait for the answer to an earlier one of their connection
_CHUNK_FRAME_BYTES = 32  # around a chunk of a body, which do not count
_LINGER_BYTES = 1024 * 1024  # that are dropped after a refusal before the connection is cut
_SEPARATORS = len(b": \r\n")


class LimitedProtocol(HttpToolsProtocol):
    """A connection with limits for heads, for requests in advance and for waiting.

    A request is `head`, then `body`; between two requests the connection is `idle`.
    """

    def __init__(self, *arguments: Any, all_connections: Connections, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._all_connections = all_connections
        self._reading: Literal["head", "body", "idle"] = "head"
        self._requests = 0
        self._write_pauses = 0
        self._received_bytes = 0
        self._overhead_bytes = 0  # of the request that arrives, except its body
        self._dropped_bytes: int | None = None  # after a refusal
        self._at_app: RequestResponseCycle | None = None  # the request that the app has, or had last

    @property
    def peer(self) -> str | None:
        """The address of the other side; None on a Unix socket."""
        return self.client[0] if self.client else None

    # --- what the transport calls

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Count the connection, or refuse it."""
        super().connection_made(transport)
        problem = self._all_connections.add(self)
        if problem is not None:
            self._refuse(problem)

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget the connection, and tell the app. uvicorn tells only the newest request, which may still wait."""
        self._all_connections.remove(self)
        if self._at_app is not None:
            self._at_app.disconnected = True
            self._at_app.message_event.set()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Read what arrived, at most 256 KB. Nothing is read after a refusal."""
        self._received_bytes += len(data)
        if self._dropped_bytes is not None:
            self._drop(data)
            return
        self._unset_keepalive_if_required()
        if self._reading == "idle":
            self._begin_head()
        self._overhead_bytes += len(data)
        self._parse(data)
        if self._overhead_bytes > MAX_HEAD_BYTES and self._dropped_bytes is None:
            self._refuse(HeadersTooLarge(MAX_HEAD_BYTES))

    def resume_writing(self) -> None:
        """Note that the peer has fetched most of what was written."""
        self._write_pauses += 1
        super().resume_writing()

    def _parse(self, data: bytes) -> None:
        while data:
            try:
                self.parser.feed_data(data)
                return
            except httptools.HttpParserUpgrade as upgrade:  # to another protocol: it is not needed, so we go on in this
                data = data[upgrade.args[0] :]
            except httptools.HttpParserError as error:
                cause = error.__context__
                self._refuse(cause if isinstance(cause, Problem) else Malformed("this is not HTTP/1.1"))
                return

    def _drop(self, data: bytes) -> None:
        self._dropped_bytes = (self._dropped_bytes or 0) + len(data)
        if self._dropped_bytes > _LINGER_BYTES:
            self.transport.abort()

    # --- what the parser calls. An exception ends the parsing: `_parse` gets it.

    def on_message_begin(self) -> None:
        """Begin a request. Raises `Problem` if too many wait already."""
        self._begin_head()
        if len(self.pipeline) >= MAX_PIPELINED:
            raise Malformed("too many requests were sent in advance")
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Give the request to the app. Raises `Problem` for a large head, and for one without a clear host."""
        head_bytes, hosts = len(self.url), 0
        for name, value in self.headers:
            head_bytes += len(name) + len(value) + _SEPARATORS
            hosts += name == b"host"
        if head_bytes > MAX_HEAD_BYTES:
            raise HeadersTooLarge(MAX_HEAD_BYTES)
        if hosts != 1 and (hosts or self.parser.get_http_version() != "1.0"):  # RFC 9112, 3.2
            raise Malformed("send one Host header")
        super().on_headers_complete()
        self._reading = "body"
        self.headers = []  # for trailers: they must not pass for headers, so nobody gets them

    def on_chunk_header(self) -> None:
        """Begin a chunk."""
        self._overhead_bytes = max(0, self._overhead_bytes - _CHUNK_FRAME_BYTES)

    def on_body(self, body: bytes) -> None:
        """Take a part of the body."""
        self._overhead_bytes = max(0, self._overhead_bytes - len(body))
        super().on_body(body)

    def on_message_complete(self) -> None:
        """End a request."""
        self._reading = "idle"
        self._overhead_bytes = 0
        super().on_message_complete()

    def _begin_head(self) -> None:
        self._reading = "head"
        self._requests += 1

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: "ASGI3Application") -> None:
        self._at_app = cycle
        super()._start_asgi_task(cycle, app)

    # --- what `Connections` calls

    def state(self) -> State:
        """What the connection waits for now."""
        request = self._unanswered()
        unsent_bytes = self.transport.get_write_buffer_size()
        if unsent_bytes and (request is None or self.flow.write_paused or self.transport.is_closing()):
            return State(Wait.READER, self._write_pauses, -unsent_bytes)
        if self._dropped_bytes is not None:
            wait = Wait.NOTHING if request else Wait.CLOSE
        elif self.flow.read_paused or self._reading == "idle":
            wait = Wait.NOTHING
        elif self._reading == "head":
            wait = Wait.HEAD
        elif request is None:
            wait = Wait.UNREAD_BODY
        else:
            wait = Wait.NOTHING if request.waiting_for_100_continue else Wait.BODY
        return State(wait, self._requests, self._received_bytes if wait is Wait.BODY else 0)

    def time_out(self, wait: Wait) -> None:
        """End the connection: it has waited for too long."""
        if wait in (Wait.READER, Wait.CLOSE):
            self.transport.abort()
        elif wait is Wait.UNREAD_BODY or not self._received_bytes:  # a browser may open a connection in advance
            self.transport.close()
        else:
            self._refuse(TooSlow(f"the request's {'headers' if wait is Wait.HEAD else 'body'} came too slowly"))

    def _unanswered(self) -> RequestResponseCycle | None:
        """The newest request whose head is complete, if its answer is not."""
        newest = cast("RequestResponseCycle | None", self.cycle)  # none before the first request
        return None if newest is None or newest.response_complete or newest.disconnected else newest

    def _refuse(self, problem: Problem) -> None:
        """Read nothing more, answer with a problem if it is the request's turn, and close."""
        if self.transport.is_closing():
            return
        self._dropped_bytes = 0
        self._all_connections.note_refusal(problem, self.peer)
        request = self._unanswered()
        if self._all_connections.is_crowded:
            self.transport.abort()
        elif request is not None and self._reading == "head":
            request.keep_alive = False  # it and those before it are answered first
        elif request is not None and (request.response_started or self.pipeline):
            self.transport.close()
        else:
            if request is not None:
                request.disconnected = True
                request.waiting_for_100_continue = False  # nothing can be written after the answer
                request.message_event.set()
            self.transport.write(answer_of(problem, self.server_state.default_headers))
            # After a full close the client's kernel could drop the answer: more data is on its way (RFC 9112, 9.6).
            self.transport.write_eof()
