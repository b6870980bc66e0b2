"""Tokens, users, the caller, and the audit log."""

from typing import Annotated

from fastapi import Body, Depends, Path, Query, Response
from sqlalchemy.orm import Session

from api.callers import ADMIN_ONLY, Caller, CallerHere, router
from api.deps import Cursor, PageLimit, SafeText, ServicesHere, only_json
from api.openapi import problems
from api.problems import Forbidden
from api.routes.lookups import Moment
from api.row_views import token_view
from jobs.db.tables import Token
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
    "for a nightly job": {"value": {"name": "nightly training", "scope": "submit", "expires_in_s": 2592000}},
    "for a colleague": {"value": {"name": "first token", "user": "alice", "scope": "submit"}},
    "for a screen": {"value": {"name": "wall", "scope": "read", "rate_limit_per_s": 5}},
}


@routes.get("/me")
def get_me(services: ServicesHere, caller: CallerHere) -> MeView:
    """Get the caller: user, scope, token and projects."""
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
    new: Annotated[NewToken, Body(openapi_examples=_TOKENS)],
) -> CreatedTokenView:
    """Create a token. Its text is only in this answer. It cannot have more rights than your token, or expire later."""
    most_per_s = services.limits.rate_of(caller.bearer)
    with services.sessions.begin() as session:
        text, token = rights.make_token(session, caller.bearer, new, most_per_s=most_per_s)
        view = token_view(token)
        details = view.model_dump(mode="json", include={"user", "scope", "name", "expires_at"})
        audit.record(session, caller.actor, "token.created", view.id, **details)
    response.headers["Cache-Control"] = "no-store"
    response.headers["Location"] = f"/v1/tokens/{view.id}"
    return CreatedTokenView(**view.model_dump(), token=text)


@routes.get("/tokens")
def list_tokens(
    services: ServicesHere,
    caller: CallerHere,
    user: Annotated[SafeText | None, Query(description="Tokens of this user, for admins; by default your own")] = None,
    live: Annotated[bool | None, Query(description="`true`: only valid tokens; `false`: only others")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[TokenView]:
    """List tokens and sessions, newest first. Those with a wider scope than yours are left out.

    Their texts cannot be shown again.
    """
    if user not in (None, caller.user) and not caller.may(Scope.ADMIN):
        raise Forbidden(f"only admins can list the tokens of others; you are {caller.user}")
    with services.sessions() as session:
        page = tokens.list_tokens(
            session, user=user or caller.user, widest=caller.bearer.scope, live=live, limit=limit, cursor=cursor
        )
        items = [token_view(token) for token in page.items]
    return Listed(items=items, next_cursor=page.next_cursor)


@routes.get("/tokens/{token_id}", responses=problems(s404="No such token"))
def get_token(token_id: TokenId, services: ServicesHere, caller: CallerHere) -> TokenView:
    """Get a token of yours. It may not have a wider scope than the token of the request. Admins get any token."""
    with services.sessions() as session:
        return token_view(_covered_token(session, caller, token_id))


@routes.delete(
    "/tokens/{token_id}",
    status_code=204,
    responses=problems(s404="No such token", s409="It is the last token of an admin"),
)
def revoke_token(token_id: TokenId, services: ServicesHere, caller: CallerHere) -> None:
    """Revoke a token of yours, with its login links and sessions. Revoking it again changes nothing.

    It may not have a wider scope than the token of the request. Admins revoke any token. All processes of the service
    refuse it within three seconds.
    """
    with services.sessions.begin() as session:
        token = _covered_token(session, caller, token_id)
        revoked_ids = rights.revoke(session, token)
        if revoked_ids:
            audit.record(session, caller.actor, "token.revoked", token_id, user=token.user_name, name=token.name)
    services.tokens.forget(token_id, *revoked_ids)


def _covered_token(session: Session, caller: Caller, token_id: str) -> Token:
    """A token that the caller may see and revoke. Raises `TokenNotFound`, `Forbidden`."""
    token = tokens.get_token(session, token_id)
    caller.require_owner(f"the token {token_id}", token.user_name)
    caller.require_scope(Scope(token.scope))
    return token


@routes.get("/users", dependencies=[ADMIN_ONLY])
def list_users(services: ServicesHere, limit: PageLimit = 50, cursor: Cursor = None) -> Listed[UserView]:
    """List all users who ever had a token, sorted by name."""
    with services.sessions() as session:
        page = rights.list_users(session, limit=limit, cursor=cursor)
    return Listed(items=[UserView.model_validate(line) for line in page.items], next_cursor=page.next_cursor)


@routes.patch(
    "/users/{user_name}",
    responses=problems(s404="No such user", s409="The user is the last admin", s415="The body is not JSON"),
    dependencies=[ADMIN_ONLY, Depends(only_json)],
)
def change_user(
    user_name: UserName,
    services: ServicesHere,
    caller: CallerHere,
    change: Annotated[UserChange, Body(openapi_examples={"shut out": {"value": {"disabled": True}}})],
) -> UserView:
    """Disable or enable a user. The tokens of a disabled user are refused.

    Their running jobs go on. Their queued jobs wait until they are enabled again.
    """
    action = "user.disabled" if change.disabled else "user.enabled"
    with services.sessions.begin() as session:
        line = rights.set_disabled(session, user_name, disabled=change.disabled)
        audit.record(session, caller.actor, action, user_name)
    services.tokens.forget_user(user_name)
    services.hints.dispatch()  # the jobs of an enabled user may be placed now
    return UserView.model_validate(line)


@routes.get("/audit", dependencies=[ADMIN_ONLY])
def list_audit_entries(
    services: ServicesHere,
    actor: Annotated[SafeText | None, Query(description="Only actions of this user")] = None,
    action: Annotated[SafeText | None, Query(description="Only this action, such as `job.cancelled`")] = None,
    subject: Annotated[
        SafeText | None, Query(description="Only actions on the job, host, ... with this id or name")
    ] = None,
    since: Annotated[Moment | None, Query(description="Only entries from this time on, in RFC 3339")] = None,
    until: Annotated[Moment | None, Query(description="Only entries before this time, in RFC 3339")] = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
) -> Listed[AuditView]:
    """List the audit log, newest first."""
    audit_filter = AuditFilter(actor=actor, action=action, subject=subject, since=since, until=until)
    with services.sessions() as session:
        page = audit.list_entries(session, audit_filter, limit=limit, cursor=cursor)
        items = [AuditView.model_validate(entry) for entry in page.items]
    return Listed(items=items, next_cursor=page.next_cursor)
