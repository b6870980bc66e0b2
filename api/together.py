"""One read of the database for many questions of one kind. Used by the routes that many clients poll."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from fastapi.concurrency import run_in_threadpool

Key = TypeVar("Key")
Found = TypeVar("Found")


class Together(Generic[Key, Found]):
    """Answers what is asked while a read runs with the next one, all of it at once.

    A read begins after everything that it answers was asked, so no answer is older than its question: nothing is
    cached. One read runs at a time, whoever asks; an error of it is the answer to all who wait for that read.
    """

    def __init__(self, read: Callable[[Sequence[Key]], Mapping[Key, Found]]) -> None:
        self._read = read
        self._asked: dict[Key, asyncio.Future[Found | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self, key: Key) -> Found | None:
        """What `read` finds for the key; None for nothing."""
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on())
        return await asyncio.shield(future)  # others may wait for the same one

    async def _read_on(self) -> None:
        try:
            while self._asked:
                asked, self._asked = self._asked, {}
                await self._answer(asked)
        finally:
            self._reading = None

    async def _answer(self, asked: Mapping[Key, asyncio.Future[Found | None]]) -> None:
        try:
            found = await run_in_threadpool(self._read, list(asked))
        except BaseException as error:
            for future in asked.values():
                if isinstance(error, Exception):
                    future.set_exception(error)
                    future.exception()  # whoever asked may have gone
                else:
                    future.cancel()
            if not isinstance(error, Exception):
                raise
        else:
            for key, future in asked.items():
                future.set_result(found.get(key))
