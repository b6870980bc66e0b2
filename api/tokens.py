"""Whose token a request carries. One a process."""

import time

from jobs import tokens
from jobs.database import Sessions
from jobs.tokens import Bearer, Scope


class Tokens:
    """Says whose token a request carries, and asks the database at most every `_FRESH_S` seconds for each.

    So a revoked token is refused within that time. Unknown ones are not remembered: nobody can fill the memory.
    """

    _FRESH_S = 3.0
    _MOST = 10_000

    def __init__(self, sessions: Sessions, configured: str | None) -> None:
        self._sessions = sessions
        self._configured = configured
        self._known: dict[str, tuple[Bearer, float]] = {}

    def store_configured(self) -> None:
        """Let the token in that this stack was set up with."""
        if self._configured:
            with self._sessions.begin() as session:
                tokens.store_token(session, self._configured, user=tokens.ADMIN, scope=Scope.ADMIN, name="stack")

    def remembered(self, sha256: str) -> Bearer | None:
        """Who holds the token, without asking the database; None where that is needed."""
        known = self._known.get(sha256)
        return known[0] if known is not None and time.monotonic() < known[1] else None

    def looked_up(self, sha256: str) -> Bearer | None:
        """Who holds the token; None for nobody."""
        if self._configured and sha256 == tokens.token_sha256(self._configured):
            self.store_configured()  # the database was away, or not migrated, when this process started
        with self._sessions() as session:
            bearer = tokens.bearer_of(session, sha256)
        if bearer is not None:
            if len(self._known) >= self._MOST:
                self._known.clear()
            self._known[sha256] = (bearer, time.monotonic() + self._FRESH_S)
        return bearer
