"""Tokens, users, the audit log, and the way in to the page."""

from collections.abc import Iterator
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import at


class PeopleCalls(Calls):
    """What is asked of people and of their tokens."""

    def me(self) -> Json:
        """Who the token says one is, and what it lets one do."""
        return self._wire.document("GET", at("me"))

    def create_token(
        self,
        name: str,
        *,
        scope: str = "submit",
        user: str | None = None,
        expires_in_s: int | None = None,
        rate_limit_per_s: float | None = None,
    ) -> Json:
        """Make a token; its text is `token` of this answer, and never told again."""
        asked = {
            "name": name, "scope": scope, "user": user, "expires_in_s": expires_in_s,
            "rate_limit_per_s": rate_limit_per_s,
        }  # fmt: skip
        return self._wire.document("POST", at("tokens"), json=asked)

    def tokens(self, *, user: str | None = None, live: bool | None = None, page_size: int = 100) -> Iterator[Json]:
        """One's own tokens and sessions, or those of `user`, newest first; `live` ones are let in."""
        yield from self._wire.pages(at("tokens"), {"user": user, "live": live, "limit": page_size})

    def token(self, token_id: str) -> Json:
        """One token, without its text."""
        return self._wire.document("GET", at("tokens", token_id))

    def revoke_token(self, token_id: str) -> None:
        """Let nobody in with a token any more. Asking twice does no harm."""
        self._wire.send("DELETE", at("tokens", token_id), again=True)

    def users(self, *, page_size: int = 100) -> Iterator[Json]:
        """All users, by name."""
        yield from self._wire.pages(at("users"), {"limit": page_size})

    def set_user_disabled(self, name: str, disabled: bool) -> Json:
        """Shut a user out, or let them in again. Asking twice does no harm."""
        return self._wire.document("PATCH", at("users", name), json={"disabled": disabled}, again=True)

    def audit(
        self,
        *,
        actor: str | None = None,
        action: str | None = None,
        subject: str | None = None,
        since: str | None = None,
        until: str | None = None,
        page_size: int = 100,
    ) -> Iterator[Json]:
        """What people did, newest first; times are RFC 3339."""
        filters: dict[str, Any] = {"actor": actor, "action": action, "subject": subject, "since": since, "until": until}
        yield from self._wire.pages(at("audit"), {**filters, "limit": page_size})

    def login_link(self) -> Json:
        """A link to the page that lets its maker in once: `{url, expires_at}`. It holds a secret."""
        made = self._wire.document("POST", at("login-links"))
        return {"url": f"{self._wire.url}{made['path']}", "expires_at": made["expires_at"]}
