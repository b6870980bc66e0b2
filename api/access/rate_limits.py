"""Rate limits: by token, and by address for unknown tokens. One set a process, in its memory. Used by `api.callers`.

A bucket is stored as one number: the time at which it will be full again ("generic cell rate algorithm").
"""

import math
import time
from collections.abc import Callable

from api.access.networks import network_of
from api.problems import TooManyRequests
from jobs.model.scopes import Scope
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings

Clock = Callable[[], float]

_BURST_S = 2.0  # requests that a token may send at once, in seconds of its rate
_FAILURES_BURST_S = 20.0
_MOST = 10_000  # buckets, by token and by address


class Buckets:
    """Token buckets by key. A bucket has room for the requests of `burst_s`, and for at least one."""

    def __init__(self, burst_s: float, *, most: int = _MOST, clock: Clock = time.monotonic) -> None:
        self._burst_s = burst_s
        self._most = most
        self._clock = clock
        self._full_at: dict[str, float] = {}

    def __len__(self) -> int:
        return len(self._full_at)

    def take(self, key: str, per_s: float) -> float:
        """Take a request out of the bucket: 0, or the seconds until there will be one."""
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
        """Forget full buckets, which are as good as new ones. If none is full, forget the oldest."""
        self._full_at = {key: full_at for key, full_at in self._full_at.items() if full_at > now}
        for key in list(self._full_at)[: len(self._full_at) - self._most + 1]:
            del self._full_at[key]


class RateLimits:
    """Applies the limits of the settings and of tokens."""

    def __init__(self, settings: Settings, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._requests = Buckets(_BURST_S, clock=clock)
        self._failures = Buckets(_FAILURES_BURST_S, clock=clock)

    def rate_of(self, bearer: Bearer) -> float | None:
        """The requests a second that a token may send; None for no limit."""
        if bearer.rate_limit_per_s is not None or bearer.scope is Scope.ADMIN:
            return bearer.rate_limit_per_s
        return self._settings.rate_limit_per_s

    def charge(self, bearer: Bearer) -> None:
        """Count a request. Raises `TooManyRequests`."""
        rate = self.rate_of(bearer)
        if rate is not None and (wait_s := self._requests.take(bearer.token_id, rate)):
            raise TooManyRequests(f"this token may send {rate:g} requests a second", retry_after_s=math.ceil(wait_s))

    def charge_attempt(self, address: str | None) -> None:
        """Count an unknown token before it is looked up. Raises `TooManyRequests`."""
        if wait_s := self._failures.take(network_of(address), self._settings.auth_failures_per_s):
            raise TooManyRequests("too many refused tokens from your address", retry_after_s=math.ceil(wait_s))

    def forgive(self, address: str | None) -> None:
        """Undo `charge_attempt`: the token was valid."""
        self._failures.put_back(network_of(address), self._settings.auth_failures_per_s)
