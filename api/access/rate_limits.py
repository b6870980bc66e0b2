"""Rate limits of tokens, of users, and of addresses with unknown tokens. One set a process. Used by `api.callers`.

The buckets are in the memory of the process, so a request waits for nothing. `api.access.settling` adds several times a
second what other apis of the service took out of them.
"""

import math
import time
from collections.abc import Mapping

from api.access.buckets import Buckets, Clock
from api.access.networks import network_of
from api.problems import TooManyRequests
from jobs.model.scopes import Scope
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings

_BURST_S = 2.0  # requests that a token or a user may send at once, in seconds of their rate
_FAILURES_BURST_S = 20.0
_DAY_S = 86_400.0
_CHANGES_BURST_S = _DAY_S / 5  # of the changes of a day


class RateLimits:
    """Applies the limits of the settings and of tokens."""

    def __init__(self, settings: Settings, clock: Clock = time.monotonic) -> None:
        self._settings = settings
        self._requests = Buckets(_BURST_S, clock=clock)
        self._users = Buckets(_BURST_S, clock=clock)
        self._changes = Buckets(_CHANGES_BURST_S, clock=clock)
        self._failures = Buckets(_FAILURES_BURST_S, clock=clock)

    @property
    def buckets(self) -> Mapping[str, Buckets]:
        """All buckets, by kind."""
        return {
            "token": self._requests, "user": self._users, "changes": self._changes, "failures": self._failures,
        }  # fmt: skip

    def rate_of(self, bearer: Bearer) -> float | None:
        """The requests a second that a token may send; None for no limit."""
        if bearer.rate_limit_per_s is not None or bearer.scope is Scope.ADMIN:
            return bearer.rate_limit_per_s
        return self._settings.rate_limit_per_s

    def charge(self, bearer: Bearer) -> None:
        """Count a request. Raises `TooManyRequests`."""
        rate = self.rate_of(bearer)
        if rate is None:
            return
        if wait_s := self._requests.take(bearer.token_id, rate):
            raise TooManyRequests(f"this token may send {rate:g} requests a second", retry_after_s=math.ceil(wait_s))
        user_rate = self._user_rate(rate)
        if wait_s := self._users.take(bearer.user, user_rate):
            self._requests.put_back(bearer.token_id, rate)
            message = f"all tokens of {bearer.user} together may send {user_rate:g} requests a second"
            raise TooManyRequests(message, retry_after_s=math.ceil(wait_s))

    def charge_more(self, bearer: Bearer, requests: float) -> None:
        """Count an admitted request as this many requests more: it took the service long."""
        rate = self.rate_of(bearer)
        if rate is not None:
            self._requests.add_cost(bearer.token_id, rate, requests)
            self._users.add_cost(bearer.user, self._user_rate(rate), requests)

    def charge_changes(self, bearer: Bearer, changes: int = 1, *, is_ending: bool = False) -> None:
        """Count changes, which add rows to the database. Raises `TooManyRequests`.

        A change that ends something is not refused: its user must be able to stop what they began.
        """
        if self.rate_of(bearer) is None:
            return
        per_day = self._settings.changes_per_day
        wait_s = self._changes.take(_changer(bearer), per_day / _DAY_S, cost=changes)
        if wait_s and not is_ending:
            message = f"{bearer.user} may make {per_day:,} changes a day"
            raise TooManyRequests(message, retry_after_s=math.ceil(wait_s))

    def add_changes(self, bearer: Bearer, changes: int) -> None:
        """Count so many changes more for an admitted request: it changed many jobs at once."""
        if self.rate_of(bearer) is not None:
            self._changes.add_cost(_changer(bearer), self._settings.changes_per_day / _DAY_S, changes)

    def charge_attempt(self, address: str | None) -> None:
        """Count an unknown token before it is looked up. Raises `TooManyRequests`."""
        per_s = self._settings.auth_failures_per_s
        if wait_s := self._failures.take(network_of(address), per_s):
            message = f"your address may send {per_s:g} refused tokens a second"
            raise TooManyRequests(message, retry_after_s=math.ceil(wait_s))

    def forgive(self, address: str | None) -> None:
        """Undo `charge_attempt`: the token was valid."""
        self._failures.put_back(network_of(address), self._settings.auth_failures_per_s)

    def _user_rate(self, token_rate: float) -> float:
        """The rate of all tokens of a user together. It never takes from a token what an admin gave to it."""
        return max(self._settings.user_rate_limit_per_s, token_rate)


def _changer(bearer: Bearer) -> str:
    """Whose changes count together: those of a user by scope. So a lost `read` token does not use up all of them."""
    return f"{bearer.scope} {bearer.user}"
