"""One read of the database for many questions of one kind. Used by the routes that many clients poll."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Generic, TypeVar

from fastapi.concurrency import run_in_threadpool

Key = TypeVar("Key")
Value = TypeVar("Value")


class SharedReads(Generic[Key, Value]):
    """Collects the keys that are asked for while a read runs, and reads all of them at once with the next one.

    A read starts after all its keys were requested, so no answer is older than its request: nothing is
    cached. Only one read runs at a time. If it fails, all who wait for it get the error.

    The more callers recently waited for one read, the later the next one starts, up to `_MOST_S` after the start of the
    last one. So a single caller gets an answer at once, and many callers share few reads.
    """

    _EACH_S = 0.0003
    _MOST_S = 0.008
    _DECAY = 0.99  # of the peak, with each read

    def __init__(self, read: Callable[[Sequence[Key]], Mapping[Key, Value]]) -> None:
        self._read = read
        self._waiting_count = 0  # callers, since the last read started
        self._waiting_peak = 0.0  # how many lately waited for one read
        self._read_started_at = 0.0  # the last read, by the clock of the event loop
        self._pending: dict[Key, asyncio.Future[Value | None]] = {}
        self._reading: asyncio.Task[None] | None = None

    async def __call__(self, key: Key) -> Value | None:
        """What `read` finds for the key; None for nothing."""
        future = self._pending.get(key)
        if future is None:
            future = self._pending[key] = asyncio.get_running_loop().create_future()
        self._waiting_count += 1
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_until_none_is_pending())
        return await asyncio.shield(future)  # others may wait for the same one

    async def _read_until_none_is_pending(self) -> None:
        clock = asyncio.get_running_loop().time
        try:
            while self._pending:
                put_off_s = min(self._waiting_peak * self._EACH_S, self._MOST_S) - (clock() - self._read_started_at)
                if put_off_s > 0:
                    await asyncio.sleep(put_off_s)
                self._read_started_at = clock()
                self._waiting_peak = max(self._waiting_count, self._DECAY * self._waiting_peak)
                self._waiting_count = 0
                batch, self._pending = self._pending, {}
                await self._answer(batch)
        finally:
            self._reading = None

    async def _answer(self, batch: Mapping[Key, asyncio.Future[Value | None]]) -> None:
        try:
            values = await run_in_threadpool(self._read, list(batch))
        except BaseException as error:
            for future in batch.values():
                if isinstance(error, Exception):
                    future.set_exception(error)
                    future.exception()  # marks it as retrieved: the caller may have gone
                else:
                    future.cancel()
            if not isinstance(error, Exception):
                raise
        else:
            for key, future in batch.items():
                future.set_result(values.get(key))
