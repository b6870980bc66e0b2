"""Token buckets by key, in the memory of one api. `api.access.settling` adds what other apis of the service took.

A bucket is stored as one number: the time at which it will be full again ("generic cell rate algorithm"). A request
moves this time by its cost divided by the rate. So what was taken is counted in seconds, and several apis can add up
theirs.
"""

import time
from collections.abc import Callable, Mapping

Clock = Callable[[], float]

MOST = 10_000  # buckets of one kind


class Buckets:
    """Token buckets. A bucket has room for the requests of `burst_s`, and for at least one."""

    def __init__(self, burst_s: float, *, most: int = MOST, clock: Clock = time.monotonic) -> None:
        self._burst_s = burst_s
        self._most = most
        self._clock = clock
        self._full_at: dict[str, float] = {}
        self._unsettled_s: dict[str, float] = {}  # taken here, and not yet known to other apis

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, per_s: float, *, cost: float = 1.0) -> float:
        """Take a request out of the bucket: 0, or the seconds until there will be one.

        A request may cost more than the bucket has. Then the next ones wait until the bucket has refilled.
        """
        now, each_s = self._clock(), 1 / per_s
        full_at = max(self._full_at.get(key, now), now)
        wait_s = full_at + each_s - now - max(self._burst_s, each_s)
        if wait_s > 1e-6:  # sums of seconds are not exact
            return wait_s
        self._move(key, full_at, cost * each_s)
        return 0.0

    def add_cost(self, key: str, per_s: float, cost: float) -> None:
        """Take more for a request that was admitted: its cost is known now."""
        now = self._clock()
        self._move(key, max(self._full_at.get(key, now), now), cost / per_s)

    def put_back(self, key: str, per_s: float) -> None:
        """Undo a `take`."""
        if key in self._full_at:
            self._move(key, self._full_at[key], -1 / per_s)

    def take_unsettled(self) -> Mapping[str, float]:
        """The seconds that were taken out of each bucket since the last call."""
        unsettled_s, self._unsettled_s = self._unsettled_s, {}
        return unsettled_s

    def settle(self, key: str, full_in_s: float) -> None:
        """All apis together leave this bucket full in so many seconds, without what is not settled yet.

        What was taken here stays taken: the broker forgets all buckets when it restarts.
        """
        if key in self._full_at:
            common_full_at = self._clock() + full_in_s + self._unsettled_s.get(key, 0.0)
            self._full_at[key] = max(self._full_at[key], common_full_at)

    def _move(self, key: str, full_at: float, by_s: float) -> None:
        if key not in self._full_at and len(self._full_at) >= self._most:
            self._make_room(self._clock())
        self._full_at[key] = full_at + by_s
        self._unsettled_s[key] = self._unsettled_s.get(key, 0.0) + by_s

    def _make_room(self, now: float) -> None:
        """Forget full buckets, which are as good as new ones. If none is full, forget the oldest."""
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        for key in list(self._full_at)[: len(self._full_at) - self._most + 1]:
            del self._full_at[key]
        self._unsettled_s = {key: taken for key, taken in self._unsettled_s.items() if key in self._full_at}
