"""Adds up what all apis of a service took out of their buckets, several times a second. A task of `api.main`.

No request waits for this. Between two settlements an api knows only what it took itself, so two apis may admit a burst
each. What they admit too much is missing in the common bucket then, and both admit less until it has refilled.
"""

from collections.abc import Mapping, Sequence

from api.access.buckets import Buckets
from api.access.common_memory import CommonMemory, MemoryAway

SETTLE_EVERY_S = 0.2
_MOST_KEYS = 500  # of one step: the broker does nothing else meanwhile

# For each bucket: the seconds until it is full again, after the seconds that this api took were added. By the broker's
# clock, so that the clocks of the apis need not agree. A bucket is kept as "full_at written_at": if that clock is set
# back, a bucket has as much left as when it was written. Otherwise its user would be refused for as long as the step.
_SETTLE = """
local time = redis.call('TIME')
local now = time[1] + time[2] / 1e6
local until_full = {}
for position, key in ipairs(KEYS) do
    local full_at, written_at = string.match(redis.call('GET', key) or '', '(%S+) (%S+)')
    local full_in = full_at and math.max(full_at - math.max(now, written_at), 0) or 0
    full_in = full_in + tonumber(ARGV[position])
    if full_in > 0 then
        redis.call('SET', key, string.format('%.6f %.6f', now + full_in, now), 'PX', math.ceil(full_in * 1000))
    else
        redis.call('DEL', key)
    end
    until_full[position] = string.format('%.6f', math.max(full_in, 0))
end
return until_full
"""


async def settle_all(buckets: Mapping[str, Buckets], memory: CommonMemory) -> None:
    """Settle the buckets of all kinds. While the broker is away, what was taken counts in this api only."""
    for kind, of_kind in buckets.items():
        await settle(kind, of_kind, memory)


async def settle(kind: str, buckets: Buckets, memory: CommonMemory) -> None:
    """Add what this api took to the common buckets of this kind, and learn what is left in them."""
    unsettled = list(buckets.take_unsettled().items())
    for first in range(0, len(unsettled), _MOST_KEYS):
        some = unsettled[first : first + _MOST_KEYS]
        try:
            until_full_s = await memory.run(
                _SETTLE, _names(kind, [key for key, _ in some]), [seconds for _, seconds in some]
            )
        except MemoryAway:
            return
        for (key, _), full_in_s in zip(some, until_full_s, strict=True):
            buckets.settle(key, float(full_in_s))


def _names(kind: str, keys: Sequence[str]) -> list[str]:
    return [f"hora:limit:{kind}:{key}" for key in keys]
