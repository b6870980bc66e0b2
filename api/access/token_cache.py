"""Whose token a request carries. One a process."""

import hmac
import time
from collections.abc import Callable, Collection
from threading import Lock

from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people import tokens
from jobs.people.tokens import Bearer


class Tokens:
    """Says whose token a request carries, and asks the database at most every `_FRESH_S` seconds for each.

    So a token that was revoked elsewhere is refused within that time; one that was revoked here is forgotten at once,
    and one that expires is never remembered beyond that. Unknown ones are not remembered: nobody can fill the memory.
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
        self._known: dict[str, tuple[Bearer, float]] = {}  # the oldest first
        self._forgotten = 0  # how often something was
        self._writing = Lock()  # requests read without it

    def store_configured(self) -> None:
        """Let the token in that this stack was set up with."""
        if self._configured:
            with self._sessions.begin() as session:
                tokens.store_token(session, self._configured, user=tokens.ADMIN, scope=Scope.ADMIN, name="stack")

    def remembered(self, sha256: str) -> Bearer | None:
        """Who holds the token, without asking the database; None where that is needed."""
        known = self._known.get(sha256)
        return known[0] if known is not None and self._clock() < known[1] else None

    def was_let_in(self, sha256: str) -> bool:
        """Whether the token was good when it was last looked up: it is no guess."""
        return sha256 in self._known

    def live(self, sha256: str) -> Bearer | None:
        """Who holds the token; asks the database where that is needed."""
        return self.remembered(sha256) or self.looked_up(sha256)

    def let_in(self, sha256s: Collection[str]) -> set[str]:
        """Those of several tokens that are still good, as the database says: for streams that have long begun."""
        with self._sessions() as session:
            return tokens.valid_hashes(session, sha256s)

    def looked_up(self, sha256: str) -> Bearer | None:
        """Who holds the token, as the database says; None for nobody."""
        if hmac.compare_digest(sha256, self._configured_sha256):
            self.store_configured()  # the database was away, or not migrated, when this process started
        asked_at, forgotten = self._clock(), self._forgotten
        with self._sessions.begin() as session:
            found = tokens.find(session, sha256)
            if found is not None and not found.is_use_noted:
                tokens.note_use(session, found.bearer.token_id)
        with self._writing:
            self._known.pop(sha256, None)
        if found is None:
            return None
        fresh_s = self._FRESH_S if found.expires_in_s is None else min(self._FRESH_S, found.expires_in_s)
        with self._writing:
            if forgotten == self._forgotten:  # else it may be this one, which was revoked after it was read
                if len(self._known) >= self._MOST:
                    del self._known[next(iter(self._known))]
                self._known[sha256] = (found.bearer, asked_at + fresh_s)
        return found.bearer

    def forget(self, *token_ids: str) -> None:
        """These were revoked: the next request with one of them is refused."""
        self._drop(lambda bearer: bearer.token_id in token_ids)

    def forget_user(self, name: str) -> None:
        """The user was shut out: so are all their tokens, from the next request on."""
        self._drop(lambda bearer: bearer.user == name)

    def _drop(self, is_meant: Callable[[Bearer], bool]) -> None:
        with self._writing:
            self._forgotten += 1
            self._known = {sha256: known for sha256, known in self._known.items() if not is_meant(known[0])}
