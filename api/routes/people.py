"""Tokens, users, who one is, and what people did."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Response

from api.callers import ADMIN_ONLY, CallerHere, router
from api.deps import Cursor, PageLimit, SafeText, ServicesHere, only_json
from api.openapi import problems
from api.problems import Forbidden
from api.routes.lookups import Moment
from api.row_views import token_view
from jobs.model.scopes import Scope
from jobs.people import audit, rights, tokens
from jobs.people.audit import AuditFilter
from jobs.views.base import Listed
from jobs.views.people import (
    AuditView,
    CreatedTokenView,
    MeView,
    NewToken,
    TokenView,
    UserChange,
    UserView,
)

routes = router("people", own=True)

TokenId = Annotated[str, Path(pattern="^[0-9a-f]{1,32}$", description="The token's id", examples=["9f86d081884c"])]
UserName = Annotated[
    str, Path(pattern=r"^[^\x00-\x1f\x7f-\x9f]{1,128}$", description="The user's name", examples=["alice"])
]

_TOKENS = {
    "for a script": {"value": {"name": "nightly training", "scope": "submit", "expires_in_s": 2592000}},
    "for a colleague": {"value": {"name": "first token", "user": "alice", "scope": "submit"}},
    "for a screen": {"value": {"name": "wall", "scope": "read", "rate_limit_per_s": 5}},
}


@routes.get("/me")
def get_me(services: ServicesHere, caller: CallerHere) -> MeView:
    """Say who calls, and what their token lets them do."""
    with services.sessions() as session:
        projects = rights.projects_of(session, caller.user)
    bearer = caller.bearer
    return MeView(
        user=bearer.user,
        scope=bearer.scope,
        token_id=bearer.token_id,
        kind="session" if bearer.kind == "session" else "bearer",
        expires_at=bearer.expires_at,
        rate_limit_per_s=services.limits.rate_of(bearer),
        projects=list(projects),
    )


@routes.post(
    "/tokens",
    status_code=201,
    responses=problems(s409="The user is disabled, or has too many tokens", s415="The body is not JSON"),
    dependencies=[Depends(only_json)],
)
def create_token(
    services: ServicesHere,
    caller: CallerHere,
    response: Response,
    asked: Annotated[NewToken, Body(openapi_examples=_TOKENS)],
) -> CreatedTokenView:
    """Make a token. Its text is in this answer and nowhere else; it may do, and lives, no more than your own."""
    most_per_s = services.limits.rate_of(caller.bearer)
    with services.sessions.begin() as session:
        text, token = rights.make_token(session, caller.bearer, asked, most_per_s=most_per_s)
        view = token_view(token)
        told = view.model_dump(mode="json", include={"user", "scope", "name", "expires_at"})
        audit.record(session, caller.actor, "token.created", view.id, **told)
    response.headers["Cache-Control"] = "no-store"
    response.headers["Location"] = f"/v1/tokens/{view.id}"
    return CreatedTokenView(**view.model_dump(), token=text)


@routes.get("/tokens")
def list_tokens(
    services: ServicesHere,
    caller: CallerHere,
    user: Annotated[SafeText | None, Query(description="Whose; null: your own. For admins")] = None,
    live: Annotated[bool | None, Query(description="Only those that are let in, or only the others")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[TokenView]:
    """List tokens and sessions, newest first, page by page. Their texts are nowhere to be had."""
    if user not in (None, caller.user) and not caller.may(Scope.ADMIN):
        raise Forbidden(f"you are {caller.user}, and only an admin sees the tokens of others")
    with services.sessions() as session:
        page = tokens.list_tokens(session, user=user or caller.user, live=live, limit=limit, cursor=cursor)
        items = [token_view(token) for token in page.items]
    return Listed(items=items, next_cursor=page.next_cursor)


@routes.get("/tokens/{token_id}", responses=problems(s404="No such token"))
def get_token(token_id: TokenId, services: ServicesHere, caller: CallerHere) -> TokenView:
    """Look a token up."""
    with services.sessions() as session:
        token = tokens.get_token(session, token_id)
        caller.require_owner(f"the token {token_id}", token.user_name)
        return token_view(token)


@routes.delete(
    "/tokens/{token_id}",
    status_code=204,
    responses=problems(s404="No such token", s409="It is the last one of an admin"),
)
def revoke_token(token_id: TokenId, services: ServicesHere, caller: CallerHere) -> None:
    """Revoke a token, and the login links and sessions that came of it. Asking again is fine.

    Other processes of the service refuse it within three seconds.
    """
    with services.sessions.begin() as session:
        token = tokens.get_token(session, token_id)
        caller.require_owner(f"the token {token_id}", token.user_name)
        ended = rights.revoke(session, token)
        audit.record(session, caller.actor, "token.revoked", token_id, user=token.user_name, name=token.name)
    services.tokens.forget(token_id, *ended)


@routes.get("/users", dependencies=[ADMIN_ONLY])
def list_users(services: ServicesHere, limit: PageLimit = 50, cursor: Cursor = None) -> Listed[UserView]:
    """List users by name, page by page. There is one for everybody who was ever given a token."""
    with services.sessions() as session:
        page = rights.list_users(session, limit=limit, cursor=cursor)
    return Listed(items=[UserView.model_validate(line) for line in page.items], next_cursor=page.next_cursor)


@routes.patch(
    "/users/{user_name}",
    responses=problems(s404="No such user", s409="Nobody else is an admin", s415="The body is not JSON"),
    dependencies=[ADMIN_ONLY, Depends(only_json)],
)
def change_user(
    user_name: UserName,
    services: ServicesHere,
    caller: CallerHere,
    change: Annotated[UserChange, Body(openapi_examples={"shut out": {"value": {"disabled": True}}})],
) -> UserView:
    """Disable a user, so that none of their tokens is let in, or enable them again. Their jobs go on."""
    action = "user.disabled" if change.disabled else "user.enabled"
    with services.sessions.begin() as session:
        line = rights.set_disabled(session, user_name, disabled=change.disabled)
        audit.record(session, caller.actor, action, user_name)
    services.tokens.forget_user(user_name)
    return UserView.model_validate(line)


@routes.get("/audit", dependencies=[ADMIN_ONLY])
def list_audit_entries(
    services: ServicesHere,
    actor: Annotated[SafeText | None, Query(description="A user's name")] = None,
    action: Annotated[SafeText | None, Query(description="Such as `job.cancelled`")] = None,
    subject: Annotated[SafeText | None, Query(description="The id or name of what it was done to")] = None,
    since: Annotated[Moment | None, Query(description="From this moment on, in RFC 3339")] = None,
    until: Annotated[Moment | None, Query(description="Before this moment, in RFC 3339")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[AuditView]:
    """Read what people did, newest first, page by page."""
    wanted = AuditFilter(actor=actor, action=action, subject=subject, since=since, until=until)
    with services.sessions() as session:
        page = audit.list_entries(session, wanted, limit=limit, cursor=cursor)
        items = [AuditView.model_validate(entry) for entry in page.items]
    return Listed(items=items, next_cursor=page.next_cursor)
