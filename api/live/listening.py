"""The connection on which the database says which jobs changed. One a process, run by the hub for ever."""

import asyncio
from collections.abc import Callable

import structlog
from psycopg import AsyncConnection, Error, sql

from api.live.changes import CHANNEL
from jobs.db.engine import connection_options, libpq_address

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_log = structlog.get_logger(__name__)


async def listen(database_url: str, *, on_hint: Callable[[str], None], on_connect: Callable[[], None]) -> None:
    """Call `on_hint` with every hint's payload, and `on_connect` after each connect: hints may have been missed."""
    address, pause_s = libpq_address(database_url), _FIRST_PAUSE_S
    while True:
        try:
            connection = await AsyncConnection.connect(address, autocommit=True, **connection_options())
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                pause_s = _FIRST_PAUSE_S
                on_connect()
                async for hint in connection.notifies():
                    on_hint(hint.payload)
        except Error as error:
            _log.warning("no hints from the database", error=str(error).partition("\n")[0], again_in_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
