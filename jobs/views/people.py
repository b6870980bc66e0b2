"""Tokens, users, and the audit log."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from jobs.model.scopes import Scope
from jobs.views.base import View

TEN_YEARS_S = 10 * 365 * 24 * 3600
USER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$"

_Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=128)]


class NewToken(BaseModel):
    """A token to create."""

    model_config = ConfigDict(extra="forbid")

    name: _Name = Field(description="What the token is for")
    scope: Scope = Scope.SUBMIT
    user: Annotated[str, StringConstraints(pattern=USER_NAME, max_length=128)] | None = Field(
        None, description="The user of the token; null: you. Only admins may create tokens for others"
    )
    expires_in_s: Annotated[int, Field(ge=1, le=TEN_YEARS_S, strict=True)] | None = Field(
        None, description="Seconds until it expires; null: it expires together with the token that creates it"
    )
    rate_limit_per_s: Annotated[float, Field(ge=0.001, le=1e6, strict=True, allow_inf_nan=False)] | None = Field(
        None, description="Requests a second; null: the settings' limit for its scope"
    )


class TokenView(View):
    """A token or a session. Its text cannot be shown again."""

    id: str
    kind: Literal["bearer", "session"] = Field(description="A login link opens a `session` in a browser")
    user: str
    name: str
    scope: Scope
    rate_limit_per_s: float | None
    created_by: str | None = Field(description="The id of the token that created it")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="When it was last used, to a few minutes")
    revoked_at: datetime | None


class CreatedTokenView(TokenView):
    """A new token with its text. The text is only in this answer."""

    token: str


class MeView(View):
    """The caller, and the rights of their token."""

    user: str
    scope: Scope
    token_id: str
    kind: Literal["bearer", "session"]
    expires_at: datetime | None
    rate_limit_per_s: float | None = Field(description="Requests a second; null: no limit")
    projects: list[str] = Field(description="The projects of which the caller is a member")


class UserView(View):
    """A person, or a program that acts as one."""

    name: str
    created_at: datetime
    disabled_at: datetime | None = Field(description="Since when their tokens are refused; null: not disabled")
    tokens: int = Field(description="Number of valid tokens: not expired and not revoked")
    scope: Scope | None = Field(description="The widest scope of these tokens; null: there are none")
    last_used_at: datetime | None = Field(description="When one of these was last used, to a few minutes")


class UserChange(BaseModel):
    """Changes to a user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    disabled: bool = Field(description="Whether all their tokens are refused")


class LoginLinkView(View):
    """A link that signs its creator in to the page. It works once."""

    path: str = Field(description="The path to open at the service's address. It contains a secret")
    expires_at: datetime


class AuditView(View):
    """One action of a user."""

    id: int
    at: datetime
    actor: str = Field(description="The user")
    token_id: str | None
    action: str = Field(description="The kind of object and what was done to it, such as `job.cancelled`")
    subject: str | None = Field(description="The id or name of that object")
    request_id: str | None
    address: str | None = Field(description="The address from which the request came")
    data: dict[str, Any]
