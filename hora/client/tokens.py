"""Tokens: who is let in, and for what."""

from collections.abc import Iterator

from hora.client.reading import read
from hora.service import Service
from jobs.model.scopes import Scope
from jobs.views.people import CreatedTokenView, MeView, TokenView


class Tokens:
    """`client.tokens`."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def me(self) -> MeView:
        """Whose token this client has, and what it lets them do."""
        return read(MeView, self._service.me())

    def create(
        self,
        name: str,
        *,
        scope: Scope | str = Scope.SUBMIT,
        user: str | None = None,
        expires_in_s: int | None = None,
        rate_limit_per_s: float | None = None,
    ) -> CreatedTokenView:
        """Make a token. Its text is `token` of this answer, and never told again."""
        made = self._service.create_token(
            name, scope=str(scope), user=user, expires_in_s=expires_in_s, rate_limit_per_s=rate_limit_per_s
        )
        return read(CreatedTokenView, made)

    def list(self, *, user: str | None = None, live: bool | None = None) -> Iterator[TokenView]:
        """One's own tokens and sessions, or those of `user`, newest first; `live` ones are let in."""
        return (read(TokenView, one) for one in self._service.tokens(user=user, live=live))

    def get(self, token_id: str) -> TokenView:
        """One token, without its text."""
        return read(TokenView, self._service.token(token_id))

    def revoke(self, token_id: str) -> None:
        """Let nobody in with a token any more. Asking twice does no harm."""
        self._service.revoke_token(token_id)
