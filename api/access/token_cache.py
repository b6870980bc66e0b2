"""Who holds the token of a request: looked up in the database, and remembered for seconds. Used by `api.callers`."""

import hmac
import time
from collections.abc import Callable, Collection
from threading import Lock

from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people import tokens
from jobs.people.tokens import Bearer


class TokenCache:
    """Looks tokens up, each at most every `_FRESH_S` seconds. One a process.

    A token that another process revoked is refused within that time, one that this process revoked at once. A token is
    never remembered beyond its expiry. Unknown tokens are not remembered, so that nobody can fill the memory.
    """

    _FRESH_S = 3.0
    _MOST = 10_000

    def __init__(
        self, sessions: Sessions, configured: str | None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._sessions = sessions
        self._configured = configured
        self._configured_sha256 = tokens.token_sha256(configured or tokens.new_token())
        self._clock = clock
        self._cached: dict[str, tuple[Bearer, float]] = {}  # with the end of its freshness; the oldest first
        self._forget_count = 0
        self._writing = Lock()  # only writers take it

    def store_configured(self) -> None:
        """Store the token of the settings as an admin's."""
        if self._configured:
            with self._sessions.begin() as session:
                tokens.store_token(session, self._configured, user=tokens.ADMIN, scope=Scope.ADMIN, name="stack")

    def remembered(self, sha256: str) -> Bearer | None:
        """Who holds the token, from memory; None if the database must be asked."""
        cached = self._cached.get(sha256)
        return cached[0] if cached is not None and self._clock() < cached[1] else None

    def was_valid(self, sha256: str) -> bool:
        """Whether the token was valid when it was last looked up, so that it cannot be a guess."""
        return sha256 in self._cached

    def bearer_of(self, sha256: str) -> Bearer | None:
        """Who holds the token, from memory or from the database; None for nobody."""
        return self.remembered(sha256) or self.look_up(sha256)

    def valid_among(self, sha256s: Collection[str]) -> set[str]:
        """Those of these tokens that are still valid, from the database. Used for the tokens of open streams."""
        with self._sessions() as session:
            return tokens.valid_hashes(session, sha256s)

    def look_up(self, sha256: str) -> Bearer | None:
        """Who holds the token, from the database; None for nobody."""
        if hmac.compare_digest(sha256, self._configured_sha256):
            self.store_configured()  # the database was away, or not migrated, when this process started
        looked_up_at, forget_count = self._clock(), self._forget_count
        with self._sessions.begin() as session:
            token = tokens.find(session, sha256)
            if token is not None and not token.is_use_noted:
                tokens.note_use(session, token.bearer.token_id)
        with self._writing:
            self._cached.pop(sha256, None)
        if token is None:
            return None
        fresh_s = self._FRESH_S if token.expires_in_s is None else min(self._FRESH_S, token.expires_in_s)
        with self._writing:
            if forget_count == self._forget_count:  # else this token may have been revoked after it was read
                if len(self._cached) >= self._MOST:
                    del self._cached[next(iter(self._cached))]
                self._cached[sha256] = (token.bearer, looked_up_at + fresh_s)
        return token.bearer

    def forget(self, *token_ids: str) -> None:
        """Refuse revoked tokens from the next request on."""
        self._drop(lambda bearer: bearer.token_id in token_ids)

    def forget_user(self, name: str) -> None:
        """Refuse all tokens of a disabled user from the next request on."""
        self._drop(lambda bearer: bearer.user == name)

    def _drop(self, is_dropped: Callable[[Bearer], bool]) -> None:
        with self._writing:
            self._forget_count += 1
            self._cached = {sha256: cached for sha256, cached in self._cached.items() if not is_dropped(cached[0])}
