"""Tokens, users, the audit log, and login links."""

from collections.abc import Iterator
from typing import Any

from hora.errors import Json
from hora.service.calls import Calls
from hora.service.transport import api_path


class PeopleCalls(Calls):
    """The requests about users and their tokens."""

    def me(self) -> Json:
        """The user of this token, and what the token allows."""
        return self._wire.document("GET", api_path("me"))

    def create_token(
        self,
        name: str,
        *,
        scope: str = "submit",
        user: str | None = None,
        expires_in_s: int | None = None,
        rate_limit_per_s: float | None = None,
    ) -> Json:
        """Make a token. Its text is `token` of this answer, and cannot be shown again."""
        document = {
            "name": name, "scope": scope, "user": user, "expires_in_s": expires_in_s,
            "rate_limit_per_s": rate_limit_per_s,
        }  # fmt: skip
        return self._wire.document("POST", api_path("tokens"), json=document)

    def tokens(self, *, user: str | None = None, live: bool | None = None, page_size: int = 100) -> Iterator[Json]:
        """Your tokens and sessions, or those of `user`, newest first. `live` gives only those that are valid."""
        yield from self._wire.pages(api_path("tokens"), {"user": user, "live": live, "limit": page_size})

    def token(self, token_id: str) -> Json:
        """One token, without its text."""
        return self._wire.document("GET", api_path("tokens", token_id))

    def revoke_token(self, token_id: str) -> None:
        """Revoke a token and its sessions. Safe to repeat."""
        self._wire.send("DELETE", api_path("tokens", token_id), repeatable=True)

    def users(self, *, page_size: int = 100) -> Iterator[Json]:
        """All users, by name."""
        yield from self._wire.pages(api_path("users"), {"limit": page_size})

    def set_user_disabled(self, name: str, disabled: bool) -> Json:
        """Disable or enable a user. Safe to repeat."""
        return self._wire.document("PATCH", api_path("users", name), json={"disabled": disabled}, repeatable=True)

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
        """What people did, newest first. Times are in RFC 3339."""
        filters: dict[str, Any] = {"actor": actor, "action": action, "subject": subject, "since": since, "until": until}
        yield from self._wire.pages(api_path("audit"), {**filters, "limit": page_size})

    def login_link(self) -> Json:
        """A link that opens the page once, as you: `{url, expires_at}`. It contains a secret."""
        link = self._wire.document("POST", api_path("login-links"))
        return {"url": f"{self._wire.url}{link['path']}", "expires_at": link["expires_at"]}
