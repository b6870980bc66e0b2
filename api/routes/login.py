"""The way in to the page: a link that is used once, and the session that it is exchanged for.

    hora login --> POST /v1/login-links --> /login?code=... in a browser --> cookies --> /

The code stands in an address, which browsers, proxies and logs keep: so it is good for ten minutes and for one use, and
the page that it leads to has another address: `/`, or the local one that `next` names, where somebody wanted to go.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from api.access import login_sessions
from api.callers import CallerHere, address_of, router
from api.deps import ServicesHere
from jobs.people import audit, rights, tokens
from jobs.people.audit import Actor
from jobs.people.tokens import LoginRefused
from jobs.views.people import LoginLinkView

routes = router("people", own=True)
pages = APIRouter(include_in_schema=False)

_NOT_KEPT = {"Cache-Control": "no-store"}
# A browser takes `//host` and `/\host` for another host's address, whatever control characters stand in between.
_LOCAL_PATH = r"^/([^/\\\x00-\x1f\x7f-\x9f][^\\\x00-\x1f\x7f-\x9f]*)?$"


@routes.post("/login-links", status_code=201)
def create_login_link(services: ServicesHere, caller: CallerHere, response: Response) -> LoginLinkView:
    """Make a link that lets you in to the page: within ten minutes, once, with the scope of your token."""
    with services.sessions.begin() as session:
        code, expires_at = rights.make_login_link(session, caller.bearer)
        audit.record(session, caller.actor, "login_link.created", caller.user)
    response.headers.update(_NOT_KEPT)
    return LoginLinkView(path=f"/login?code={code}", expires_at=expires_at)


@pages.get("/login")
def log_in(
    request: Request,
    services: ServicesHere,
    code: Annotated[str, Query(min_length=1, max_length=200)],
    next_path: Annotated[str, Query(alias="next", pattern=_LOCAL_PATH, max_length=2000)] = "/",
) -> Response:
    """Exchange the code of a link for a session, and go on to the page; to it as well, in a browser, when refused."""
    address = address_of(request)
    services.limits.charge_attempt(address)
    try:
        with services.sessions.begin() as session:
            text, bearer, expires_at = tokens.start_session(session, code)
            actor = Actor(bearer.user, bearer.token_id, request.state.request_id, address)
            audit.record(session, actor, "session.started", bearer.user)
    except LoginRefused:
        if "text/html" in request.headers.get("accept", ""):  # a person, who can do more there than with a problem
            return RedirectResponse("/?signin=refused", 303, _NOT_KEPT)
        raise
    services.limits.forgive(address)
    response = RedirectResponse(next_path, 303, _NOT_KEPT)
    login_sessions.begin(request, response, text, expires_at)
    return response


@pages.post("/logout", status_code=204)
def log_out(request: Request, services: ServicesHere, caller: CallerHere) -> Response:
    """End the session that asks for it."""
    if caller.bearer.kind == "session":
        with services.sessions.begin() as session:
            ended = tokens.revoke_with_sessions(session, caller.bearer.token_id)
            audit.record(session, caller.actor, "session.ended", caller.user)
        services.tokens.forget(*ended)
    response = Response(status_code=204, headers=_NOT_KEPT)
    login_sessions.end(request, response)
    return response
