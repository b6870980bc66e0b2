"""How many live streams a user has open at all apis of a service together. Used by the routes of streams.

Each api writes its own number for each user into the broker, and renews it. The numbers of an api that was killed
expire. A stream that opens is counted in the same step in which the others are added up, so the limit is exact. While
the broker is away, each api counts its own streams.
"""

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from api.access.common_memory import CommonMemory, MemoryAway
from api.problems import TooManyStreams

LIFE_S = 10.0  # of a number that its api does not renew
_RENEW_EVERY_S = 3.0
WRITE_EVERY_S = 0.5  # numbers that became smaller
_MOST_KEYS = 500  # of one step

# A user's numbers are fields of one hash: `api: "count expiry"`, by the broker's clock.
_FUNCTIONS = """
local time = redis.call('TIME')
local now_ms = time[1] * 1000 + math.floor(time[2] / 1000)
local function write(key, api, count, life_ms)
    if count > 0 then
        redis.call('HSET', key, api, count .. ' ' .. (now_ms + life_ms))
        redis.call('PEXPIRE', key, life_ms)
    else
        redis.call('HDEL', key, api)
    end
end
"""
# Writes a number if all together are at most the limit. Returns the sum of the others. A number that expires later than
# one that is written now is from before the clock was set back: its api writes it again, if that api lives.
_OPEN = (
    _FUNCTIONS
    + """
local others = 0
local fields = redis.call('HGETALL', KEYS[1])
for position = 1, #fields, 2 do
    local count, expires_ms = string.match(fields[position + 1], '(%d+) (%d+)')
    if tonumber(expires_ms) < now_ms or tonumber(expires_ms) > now_ms + ARGV[4] then
        redis.call('HDEL', KEYS[1], fields[position])
    elseif fields[position] ~= ARGV[1] then
        others = others + tonumber(count)
    end
end
if others + tonumber(ARGV[2]) <= tonumber(ARGV[3]) then
    write(KEYS[1], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[4]))
end
return {others}
"""
)
_RENEW = (
    _FUNCTIONS
    + """
for position, key in ipairs(KEYS) do
    write(key, ARGV[1], tonumber(ARGV[position + 2]), tonumber(ARGV[2]))
end
return {}
"""
)


class StreamShares:
    """Counts the streams of users. One a process. `memory` None: this process counts for itself."""

    def __init__(self, most: int, memory: CommonMemory | None) -> None:
        self._most = most
        self._memory = memory
        self._api = secrets.token_hex(6)
        self._counts: Counter[str] = Counter()
        self._writing = asyncio.Lock()  # so that an older number never replaces a newer one
        self._renewed_at = time.monotonic()
        self._ended: set[str] = set()  # users of whom a stream ended, and the broker does not know it yet

    @asynccontextmanager
    async def share_of(self, user: str) -> AsyncIterator[None]:
        """Hold one stream of a user. Raises `TooManyStreams`."""
        async with self._writing:
            if self._counts[user] + 1 + await self._others(user) > self._most:
                raise TooManyStreams(user, self._most)
            self._counts[user] += 1
        try:
            yield
        finally:
            self._counts[user] -= 1
            self._ended.add(user)
            if not self._counts[user]:
                del self._counts[user]

    async def write(self) -> None:
        """Bring the numbers of this process in the broker up to date. Called regularly."""
        users, self._ended = self._ended, set()
        if time.monotonic() - self._renewed_at >= _RENEW_EVERY_S:
            self._renewed_at = time.monotonic()
            users |= set(self._counts)
        await self._write(sorted(users))

    async def _others(self, user: str) -> int:
        """The streams of a user at other apis, as far as the broker knows. One more here is noted, if allowed."""
        count = self._counts[user] + 1
        if self._memory is None or count > self._most:
            return 0
        try:
            values = (self._api, count, self._most, LIFE_S * 1000)
            (others,) = await self._memory.run(_OPEN, [_name(user)], values)
        except MemoryAway:
            return 0
        return int(others)

    async def _write(self, users: list[str]) -> None:
        if self._memory is None:
            return
        for first in range(0, len(users), _MOST_KEYS):
            some = users[first : first + _MOST_KEYS]
            try:
                async with self._writing:
                    counts = [self._counts[user] for user in some]
                    await self._memory.run(_RENEW, [_name(user) for user in some], [self._api, LIFE_S * 1000, *counts])
            except MemoryAway:
                return


def _name(user: str) -> str:
    return f"hora:streams:{user}"
