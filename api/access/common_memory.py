"""What all apis of a service remember together: a few numbers in the broker. Used by `settling` and `stream_shares`.

The broker may be away at any time. Then `CommonMemory.run` raises `MemoryAway` at once, and each api goes on with what
it knows by itself. Everything in the broker has an expiry: an api that was killed takes nothing with it for long.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import structlog
from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.commands.core import AsyncScript
from redis.exceptions import RedisError

_TIMEOUT_S = 0.5
_REST_S = 2.0  # after an error: until then nobody waits for the broker again

_log = structlog.get_logger(__name__)


class MemoryAway(Exception):
    """The broker does not answer, or did not a moment ago."""


class CommonMemory:
    """Runs scripts in the broker, each in one round trip and as one step."""

    def __init__(self, connection: Redis) -> None:
        self._connection = connection
        self._scripts: dict[str, AsyncScript] = {}
        self._is_away = False
        self._away_until = 0.0

    @staticmethod
    def at(broker_url: str) -> "CommonMemory | None":
        """The memory in this broker. None for a broker that is no Redis or Valkey: each api then has its own limits."""
        parts = urlsplit(broker_url)
        options: dict[str, Any] = {
            "socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S, "retry": Retry(NoBackoff(), 0),
            "decode_responses": True,
        }  # fmt: skip
        if parts.scheme == "redis+socket":  # Celery's form of the address of a Unix socket
            database = parse_qs(parts.query).get("virtual_host", ["0"])[0]
            user, password = (unquote(text) if text else None for text in (parts.username, parts.password))
            return CommonMemory(
                Redis(unix_socket_path=parts.path, db=int(database), username=user, password=password, **options)
            )
        if parts.scheme in ("redis", "rediss"):
            url = broker_url.replace("ssl_cert_reqs=CERT_", "ssl_cert_reqs=")  # Celery's form of the same option
            return CommonMemory(Redis.from_url(url, **options))
        return None

    async def run(self, script: str, keys: Sequence[str], values: Sequence[str | float]) -> list[Any]:
        """The answer of a script. Raises `MemoryAway`."""
        if time.monotonic() < self._away_until:
            raise MemoryAway
        try:
            answer: list[Any] = await self._script(script)(keys=keys, args=values)
        except (RedisError, OSError, TimeoutError) as error:
            self._note_away(error)
            raise MemoryAway from None
        if self._is_away:
            self._is_away = False
            _log.info("the broker is back: all apis share their limits again")
        return answer

    def _note_away(self, error: Exception) -> None:
        self._away_until = time.monotonic() + _REST_S
        if not self._is_away:
            self._is_away = True
            _log.warning("each api has its own limits while the broker is away", error=str(error).partition("\n")[0])

    def _script(self, text: str) -> AsyncScript:
        if text not in self._scripts:
            self._scripts[text] = self._connection.register_script(text)
        return self._scripts[text]

    async def close(self) -> None:
        """Close its connections."""
        await self._connection.aclose()


async def repeat(work: Callable[[], Awaitable[None]], *, every_s: float, stopped: asyncio.Event) -> None:
    """Do this work regularly until `stopped`, and once more then. An error is logged, and does not end it.

    It is not cancelled: in Python 3.11 a time-out that comes at the same time can swallow that.
    """
    while not stopped.is_set():
        with suppress(TimeoutError):
            await asyncio.wait_for(stopped.wait(), every_s)
        try:
            await work()
        except Exception:
            _log.exception("sharing limits with other apis failed")
