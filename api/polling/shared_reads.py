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

    The more of them lately waited for one read, the longer the next one is put off, up to `_MOST_S` after the last one
    began: who asks alone is answered at once, and a crowd shares few reads.
    """

    _EACH_S = 0.0003
    _MOST_S = 0.008
    _FORGETS = 0.99  # a read later, of how many waited

    def __init__(self, read: Callable[[Sequence[Key]], Mapping[Key, Found]]) -> None:
        self._read = read
        self._waiting = 0
        self._lately = 0.0  # waited for one read, at the most
        self._begun_at = 0.0  # the last read, by the clock of the event loop
        self._asked: dict[Key, asyncio.Future[Found | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self, key: Key) -> Found | None:
        """What `read` finds for the key; None for nothing."""
        future = self._asked.get(key)
        if future is None:
            future = self._asked[key] = asyncio.get_running_loop().create_future()
        self._waiting += 1
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_on())
        return await asyncio.shield(future)  # others may wait for the same one

    async def _read_on(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._asked:
                put_off_s = min(self._lately * self._EACH_S, self._MOST_S) - (clock() - self._begun_at)
                if put_off_s > 0:
                    await asyncio.sleep(put_off_s)
                self._begun_at = clock()
                self._lately, self._waiting = max(self._waiting, self._FORGETS * self._lately), 0
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
