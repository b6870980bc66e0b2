"""Who calls, and whether they may: every route below /v1 is made by `router`, which asks for a token and its scope."""

from dataclasses import dataclass
from typing import Annotated

from fastapi import APIRouter, Depends, Request, Security
from fastapi.concurrency import run_in_threadpool
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from api.deps import ServicesHere
from api.problems import Forbidden, Unauthorized
from jobs import tokens
from jobs.audit import Actor
from jobs.tokens import Bearer, Scope

_SAFE = frozenset({"GET", "HEAD", "OPTIONS"})

_bearer = HTTPBearer(auto_error=False, description="A token, such as the one in `$HORA_HOME/token`.")


@dataclass(frozen=True)
class Caller:
    """Who calls, with which token, and from where."""

    bearer: Bearer
    actor: Actor

    @property
    def user(self) -> str:
        """Their name."""
        return self.bearer.user

    def may(self, scope: Scope) -> bool:
        """Whether their token has the scope."""
        return self.bearer.scope.covers(scope)


async def _caller(
    request: Request,
    services: ServicesHere,
    credentials: Annotated[HTTPAuthorizationCredentials | None, Security(_bearer)],
) -> Caller:
    if credentials is None or not credentials.credentials:
        raise Unauthorized("send a token as `Authorization: Bearer TOKEN`")
    sha256 = tokens.token_sha256(credentials.credentials)
    bearer = services.tokens.remembered(sha256) or await run_in_threadpool(services.tokens.looked_up, sha256)
    if bearer is None or bearer.kind != "bearer":
        raise Unauthorized("this token is unknown, has expired or was revoked")
    address = request.client.host if request.client is not None else None
    return Caller(bearer, Actor(bearer.user, bearer.token_id, request.state.request_id, address))


CallerHere = Annotated[Caller, Depends(_caller)]


async def _reader_or_submitter(request: Request, caller: CallerHere) -> None:
    _require(caller, Scope.READ if request.method in _SAFE else Scope.SUBMIT)


async def _admin(caller: CallerHere) -> None:
    _require(caller, Scope.ADMIN)


def _require(caller: Caller, needed: Scope) -> None:
    if not caller.may(needed):
        raise Forbidden(f"this needs a token with the scope {needed}; yours has {caller.bearer.scope}")


ADMIN_ONLY = Depends(_admin)  # for `dependencies=` of a route


def router(*tags: str, admin: bool = False) -> APIRouter:
    """A router of routes below /v1. They need a token: to read, to submit where they change something, or `admin`."""
    return APIRouter(
        prefix="/v1", tags=list(tags), dependencies=[ADMIN_ONLY if admin else Depends(_reader_or_submitter)]
    )
