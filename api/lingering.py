"""Keeps a connection open until a refused request has been sent in full. The outermost layer of the api.

If a server closes a connection on which data still arrives, the client's kernel drops the answer, even unread. So the
answer is sent in full. Then the rest of the request is read and dropped: RFC 9112, 9.6.
"""

import asyncio

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LONGEST_S = 10.0
MOST_BYTES = 64 * 1024 * 1024
_SILENCE_S = 2.0  # of a client that waits for the end of the connection, as after `Expect: 100-continue`


class Lingering:
    """Sends refusals at once, and ends them when the body is over, or a limit is reached.

    After 413 the connection is closed: the rest of the body is of no use.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one connection."""
        if scope["type"] != "http" or not _has_body(scope):
            await self._app(scope, receive, send)
            return
        is_body_read, is_refusal, has_end_waiting = False, False, False

        async def receive_noted() -> Message:
            nonlocal is_body_read
            message = await receive()
            is_body_read = is_body_read or not message.get("more_body", False)
            return message

        async def send_but_the_end(message: Message) -> None:
            nonlocal is_refusal, has_end_waiting
            if message["type"] == "http.response.start":
                is_refusal = message["status"] >= 400
                if message["status"] == 413:
                    MutableHeaders(scope=message)["Connection"] = "close"
            elif is_refusal and not is_body_read and not message.get("more_body", False):
                has_end_waiting, message = True, {**message, "more_body": True}
            await send(message)

        await self._app(scope, receive_noted, send_but_the_end)
        if has_end_waiting:
            await _discard(receive)
            await send({"type": "http.response.body"})


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return "transfer-encoding" in headers or headers.get("content-length", "0") != "0"


async def _discard(receive: Receive) -> None:
    """Read up to the end of the body, or to one of the limits."""
    discarded = 0
    try:
        async with asyncio.timeout(LONGEST_S):
            while discarded < MOST_BYTES:
                message = await asyncio.wait_for(receive(), _SILENCE_S)
                if not message.get("more_body", False):
                    return
                discarded += len(message["body"])
    except TimeoutError:
        return
