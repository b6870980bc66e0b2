"""The one connection of the process on which the database says which jobs changed. Run by the hub, for ever."""

import asyncio
from collections.abc import Callable

import structlog
from psycopg import AsyncConnection, Error, sql

from api.live.changes import CHANNEL
from jobs.db.engine import connection_options, libpq_address

_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.1, 5.0
_log = structlog.get_logger(__name__)


async def listen(database_url: str, *, heard: Callable[[str], None], connected: Callable[[], None]) -> None:
    """Give every hint's payload to `heard`. `connected` is called when hints may have been missed before."""
    address, pause_s = libpq_address(database_url), _FIRST_PAUSE_S
    while True:
        try:
            connection = await AsyncConnection.connect(address, autocommit=True, **connection_options())
            async with connection:
                await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(CHANNEL)))
                pause_s = _FIRST_PAUSE_S
                connected()
                async for hint in connection.notifies():
                    heard(hint.payload)
        except Error as error:
            _log.warning("no hints from the database", error=str(error).partition("\n")[0], again_in_s=pause_s)
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
