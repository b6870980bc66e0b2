"""Tokens, users, and what they did."""

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from jobs.model.scopes import Scope
from jobs.views.base import View

TEN_YEARS_S = 10 * 365 * 24 * 3600
USER_NAME = r"^[A-Za-z0-9][A-Za-z0-9._@+-]*$"

_Name = Annotated[str, StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", max_length=128)]


class NewToken(BaseModel):
    """What a token is to be."""

    model_config = ConfigDict(extra="forbid")

    name: _Name = Field(description="What it is for")
    scope: Scope = Scope.SUBMIT
    user: Annotated[str, StringConstraints(pattern=USER_NAME, max_length=128)] | None = Field(
        None, description="Whose it is to be; null: your own. Admins alone make tokens for others"
    )
    expires_in_s: Annotated[int, Field(ge=1, le=TEN_YEARS_S, strict=True)] | None = Field(
        None, description="Null: as long as the token that makes it"
    )
    rate_limit_per_s: Annotated[float, Field(ge=0.001, le=1e6, strict=True, allow_inf_nan=False)] | None = Field(
        None, description="Requests a second; null: what the settings say for its scope"
    )


class TokenView(View):
    """What lets somebody in. Its text is nowhere to be had."""

    id: str
    kind: Literal["bearer", "session"] = Field(description="A session is what a login link opened in a browser")
    user: str
    name: str
    scope: Scope
    rate_limit_per_s: float | None
    created_by: str | None = Field(description="The id of the token by which it was made")
    created_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None = Field(description="To a few minutes")
    revoked_at: datetime | None


class CreatedTokenView(TokenView):
    """A token that was just made, with its text: it is told this once."""

    token: str


class MeView(View):
    """Who calls, and what their token lets them do."""

    user: str
    scope: Scope
    token_id: str
    kind: Literal["bearer", "session"]
    expires_at: datetime | None
    rate_limit_per_s: float | None = Field(description="Null: no limit")
    projects: list[str] = Field(description="Those that they are a member of")


class UserView(View):
    """A person, or a program that acts as one."""

    name: str
    created_at: datetime
    disabled_at: datetime | None = Field(description="Since when none of their tokens is let in")
    tokens: int = Field(description="How many there are that have not expired and were not revoked")
    scope: Scope | None = Field(description="The widest of these; null where there is none")
    last_used_at: datetime | None = Field(description="When one of these was used, to a few minutes")


class UserChange(BaseModel):
    """What is to change about a user."""

    model_config = ConfigDict(extra="forbid", strict=True)

    disabled: bool = Field(description="Whether all their tokens are refused")


class LoginLinkView(View):
    """A link that lets its maker in to the page, once."""

    path: str = Field(description="What to open at the service's address; it holds a secret")
    expires_at: datetime


class AuditView(View):
    """One thing that somebody did."""

    id: int
    at: datetime
    actor: str = Field(description="The user")
    token_id: str | None
    action: str = Field(description="What was done to what, such as `job.cancelled`")
    subject: str | None = Field(description="The id or name of what it was done to")
    request_id: str | None
    address: str | None = Field(description="Where it came from")
    data: dict[str, Any]
