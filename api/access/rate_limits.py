"""How often somebody may ask: by token, and by address for tokens that are not known. One a process, in its memory.

A bucket for each is kept as one number: the moment at which it will be full again ("generic cell rate algorithm").
"""

import math
import time
from collections.abc import Callable
from ipaddress import ip_address

from api.problems import TooManyRequests
from jobs.model.scopes import Scope
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings

Clock = Callable[[], float]

_BURST_S = 2.0  # what a token may ask at once, in seconds of its rate
_FAILURES_BURST_S = 20.0
_MOST = 10_000  # buckets of a kind


class Buckets:
    """Token buckets by key. A bucket holds what comes in during `burst_s`, and at least one."""

    def __init__(self, burst_s: float, *, most: int = _MOST, clock: Clock = time.monotonic) -> None:
        self._burst_s = burst_s
        self._most = most
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, per_s: float) -> float:
        """Take one; 0, or the seconds until there will be one."""
        now, each_s = self._clock(), 1 / per_s
        full_at = max(self._full_at.get(key, now), now)
        wait_s = full_at + each_s - now - max(self._burst_s, each_s)
        if wait_s > 1e-9:
            return wait_s
        if key not in self._full_at and len(self._full_at) >= self._most:
            self._make_room(now)
        self._full_at[key] = full_at + each_s
        return 0.0

    def put_back(self, key: str, per_s: float) -> None:
        """Undo a `take`."""
        if key in self._full_at:
            self._full_at[key] -= 1 / per_s

    def _make_room(self, now: float) -> None:
        """Forget buckets that are full, which says nothing; where all are in use, those that were made first."""
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        for key in list(self._full_at)[: len(self._full_at) - self._most + 1]:
            del self._full_at[key]


class Limits:
    """What the settings, and a token's own limit, allow."""

    def __init__(self, settings: Settings, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._requests = Buckets(_BURST_S, clock=clock)
        self._failures = Buckets(_FAILURES_BURST_S, clock=clock)

    def rate_of(self, bearer: Bearer) -> float | None:
        """The requests a second that a token is held to; None: any."""
        if bearer.rate_limit_per_s is not None or bearer.scope is Scope.ADMIN:
            return bearer.rate_limit_per_s
        return self._settings.rate_limit_per_s

    def charge(self, bearer: Bearer) -> None:
        """Count a request. Raises `TooManyRequests`."""
        rate = self.rate_of(bearer)
        if rate is not None and (wait_s := self._requests.take(bearer.token_id, rate)):
            raise TooManyRequests(f"this token may send {rate:g} requests a second", retry_after_s=math.ceil(wait_s))

    def charge_attempt(self, address: str | None) -> None:
        """Count, before it is looked up, a token that was never seen to be good. Raises `TooManyRequests`."""
        if wait_s := self._failures.take(_network(address), self._settings.auth_failures_per_s):
            raise TooManyRequests("too many tokens from your address were refused", retry_after_s=math.ceil(wait_s))

    def forgive(self, address: str | None) -> None:
        """It was good: take it off the count."""
        self._failures.put_back(_network(address), self._settings.auth_failures_per_s)


def _network(address: str | None) -> str:
    """Of an IPv6 address the network: each host has as many addresses there as it likes."""
    try:
        found = ip_address(address or "")
    except ValueError:
        return address or ""
    if found.version == 6 and found.ipv4_mapped is None:
        return str(found.packed[:8].hex())
    return str(found)
