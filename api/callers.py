"""The caller of a request and their rights. `router` makes the routes below /v1 and requires a token with the scope."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Annotated, Any, Protocol

from fastapi import APIRouter, Depends, Request, Response, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.dependencies.models import Dependant
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from sqlalchemy.orm import Session

from api.access import login_sessions
from api.deps import Services, ServicesHere
from api.problems import Forbidden, InsufficientScope, Unauthorized
from jobs.data.code import runs_code
from jobs.model.scopes import Scope
from jobs.people import project_admission, rights, tokens
from jobs.people.audit import Actor
from jobs.people.project_admission import Applicant
from jobs.people.tokens import Bearer

_SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

_bearer = HTTPBearer(auto_error=False, description="A token, such as the one in `$HORA_HOME/token`.")


class Owned(Protocol):
    """A job or a study: it has an owner and counts under a project."""

    id: str
    owner: str
    project: str


@dataclass(frozen=True)
class Caller:
    """Who calls, with which token, and from where."""

    bearer: Bearer
    actor: Actor
    sha256: str = field(repr=False)  # of the token; `TokenCache` knows tokens by it

    @property
    def user(self) -> str:
        """Their name."""
        return self.bearer.user

    @property
    def applicant(self) -> Applicant:
        """The caller as one who submits."""
        return Applicant(self.user, is_admin=self.may(Scope.ADMIN))

    def may(self, scope: Scope) -> bool:
        """Whether their token has the scope."""
        return self.bearer.scope.covers(scope)

    def require_scope(self, needed: Scope) -> None:
        """Refuse a token without the scope. Raises `InsufficientScope`."""
        if not self.may(needed):
            raise InsufficientScope(needed, self.bearer.scope)

    def require_steering(self, session: Session, noun: str, owned: Owned) -> None:
        """Refuse callers who may not steer a job or a study (`noun`). Raises `NotAllowed`."""
        if not self.may(Scope.ADMIN):
            named = f"{noun} {owned.id}"
            rights.require_steering(session, self.user, subject=named, owner=owned.owner, project=owned.project)

    def may_steer(self, session: Session, owned: Owned) -> bool:
        """Whether the caller may change or delete this."""
        return self.may(Scope.ADMIN) or rights.may_steer(session, self.user, owner=owned.owner, project=owned.project)

    def require_resuming(self, session: Session, noun: str, owned: Owned) -> None:
        """Refuse callers who may not resume a job or a study (`noun`): to resume it is to submit it again.

        Raises `NotAllowed`, `InsufficientScope`.
        """
        self.require_steering(session, noun, owned)
        if runs_code(session, owned.id):
            self.require_scope(Scope.CODE)
        project_admission.require_resumer(
            session, owned.project, self.applicant, subject=f"{noun} {owned.id}", owner=owned.owner
        )

    def require_owner(self, resource: str, owner: str) -> None:
        """Refuse all but the owner of a resource, and admins. Raises `Forbidden`."""
        if self.user != owner and not self.may(Scope.ADMIN):
            raise Forbidden(f"{resource} belongs to {owner}: only they and admins may do this")


async def caller_of(request: Request, services: Services) -> Caller:
    """Who calls. Asks the database only for a token that is not remembered. Raises `Problem`."""
    authorization = request.headers.get("authorization")
    if authorization is not None:
        scheme, _, text = authorization.partition(" ")
        kind: tokens.Kind = "bearer"
        text = text.strip() if scheme.lower() == "bearer" else ""
    else:
        text, kind = request.cookies.get(login_sessions.SESSION_COOKIE, ""), "session"
    if not text:
        raise Unauthorized("send a token as `Authorization: Bearer TOKEN`")
    sha256 = tokens.token_sha256(text)
    bearer = services.tokens.remembered(sha256) or await _look_up(request, services, sha256)
    if bearer is None or bearer.kind != kind:
        raise Unauthorized("this token is unknown, has expired or was revoked", "invalid_token")
    services.limits.charge(bearer)
    if request.method not in _SAFE_METHODS:
        if kind == "session":
            login_sessions.require_own_page(request, text)
        services.limits.charge_changes(bearer, is_ending=_is_ending(request))
    return Caller(bearer, Actor(bearer.user, bearer.token_id, request.state.request_id, address_of(request)), sha256)


def _is_ending(request: Request) -> bool:
    """Whether a request only ends something: a job, a study, a token, a session, or what it deletes."""
    return request.method == "DELETE" or request.url.path.endswith(("/cancel", "/logout"))


async def _look_up(request: Request, services: Services, sha256: str) -> Bearer | None:
    """Who holds a token. A token that was valid before is not a guess, so guessing by others locks nobody out."""
    if services.tokens.was_valid(sha256):
        return await run_in_threadpool(services.tokens.look_up, sha256)
    address = address_of(request)
    services.limits.charge_attempt(address)
    bearer = await run_in_threadpool(services.tokens.look_up, sha256)
    if bearer is not None:
        services.limits.forgive(address)
    return bearer


def address_of(request: Request) -> str | None:
    """Where a request comes from."""
    return request.client.host if request.client is not None else None


async def _caller(
    request: Request,
    services: ServicesHere,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],  # so that OpenAPI has it
) -> Caller:
    return _caller_in(request) or await caller_of(request, services)


def _caller_in(request: Request) -> Caller | None:
    """Who calls, if that was looked up before for this request."""
    caller: Caller | None = getattr(request.state, "caller", None)
    return caller


CallerHere = Annotated[Caller, Depends(_caller)]


async def _reader_or_submitter(request: Request, caller: CallerHere) -> None:
    caller.require_scope(Scope.READ if request.method in _SAFE_METHODS else Scope.SUBMIT)


async def _any_token(caller: CallerHere) -> None:
    """Require any valid token."""


async def _admin(caller: CallerHere) -> None:
    caller.require_scope(Scope.ADMIN)


async def _coder(caller: CallerHere) -> None:
    caller.require_scope(Scope.CODE)


class _Guarded(APIRoute):
    """A route that checks the token first. FastAPI by itself would read and check the body before that."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()

        async def guarded(request: Request) -> Response:
            if _caller_in(request) is None:
                request.state.caller = await caller_of(request, request.app.state.services)
            return await handler(request)

        return guarded


ADMIN_ONLY = Depends(_admin)  # for `dependencies=` of a route
CODE_ONLY = Depends(_coder)


def scope_of(dependant: Dependant, method: str) -> Scope:
    """The scope that a route of `router` needs, by the route's dependencies."""
    guards = {dependency.call for dependency in dependant.dependencies}
    if _admin in guards:
        return Scope.ADMIN
    if _coder in guards:
        return Scope.CODE
    return Scope.READ if _any_token in guards or method in _SAFE_METHODS else Scope.SUBMIT


def router(*tags: str, admin: bool = False, own: bool = False) -> APIRouter:
    """A router of routes below /v1. They need a token with the scope read, or submit if they change something.

    With `admin` they need the scope admin. With `own`, for what people do with their own tokens, any scope will do.
    """
    by_scope = Depends(_any_token) if own else Depends(_reader_or_submitter)
    guards = [ADMIN_ONLY if admin else by_scope]
    return APIRouter(prefix="/v1", tags=list(tags), dependencies=guards, route_class=_Guarded)
