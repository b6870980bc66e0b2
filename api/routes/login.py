"""Sign-in to the page: a link that works once, and the session that it is exchanged for.

    hora login --> POST /v1/login-links --> /login?code=... in a browser --> cookies --> /

The code is part of an address, and browsers, proxies and logs keep addresses. So it works once and for ten minutes, and
leads to a page with another address: `/`, or the local one that `next` names.
"""

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from fastapi.responses import RedirectResponse

from api.access import login_sessions
from api.callers import CallerHere, address_of, router
from api.deps import ServicesHere
from api.openapi import problems
from jobs.people import audit, rights, tokens
from jobs.people.audit import Actor
from jobs.people.tokens import LoginRefused
from jobs.views.people import LoginLinkView

routes = router("people", own=True)
pages = APIRouter(include_in_schema=False)

_NO_STORE = {"Cache-Control": "no-store"}
# Browsers read `//host` and `/\host` as the address of another host, also with control characters in between.
_LOCAL_PATH = r"^/([^/\\\x00-\x1f\x7f-\x9f][^\\\x00-\x1f\x7f-\x9f]*)?$"


@routes.post("/login-links", status_code=201, responses=problems(s409="The user made too many login links in a day"))
def create_login_link(services: ServicesHere, caller: CallerHere, response: Response) -> LoginLinkView:
    """Create a link that signs you in to the page, with the scope of your token. It works once, within ten minutes."""
    with services.sessions.begin() as session:
        code, expires_at = rights.make_login_link(session, caller.bearer)
        audit.record(session, caller.actor, "login_link.created", caller.user)
    response.headers.update(_NO_STORE)
    return LoginLinkView(path=f"/login?code={code}", expires_at=expires_at)


@pages.get("/login")
def log_in(
    request: Request,
    services: ServicesHere,
    code: Annotated[str, Query(min_length=1, max_length=200)],
    next_path: Annotated[str, Query(alias="next", pattern=_LOCAL_PATH, max_length=2000)] = "/",
) -> Response:
    """Exchange the code of a link for a session, and redirect to the page. A bad code redirects only browsers."""
    address = address_of(request)
    services.limits.charge_attempt(address)
    try:
        with services.sessions.begin() as session:
            text, bearer, expires_at = tokens.start_session(session, code)
            actor = Actor(bearer.user, bearer.token_id, request.state.request_id, address)
            audit.record(session, actor, "session.started", bearer.user)
    except LoginRefused:
        if "text/html" in request.headers.get(
            "accept", ""
        ):  # a person in a browser: the page is more useful to them than a problem
            return RedirectResponse("/?signin=refused", 303, _NO_STORE)
        raise
    services.limits.forgive(address)
    response = RedirectResponse(next_path, 303, _NO_STORE)
    login_sessions.begin(request, response, text, expires_at)
    return response


@pages.post("/logout", status_code=204)
def log_out(request: Request, services: ServicesHere, caller: CallerHere) -> Response:
    """End the caller's session."""
    if caller.bearer.kind == "session":
        with services.sessions.begin() as session:
            withdrawn_ids = tokens.revoke_with_sessions(session, caller.bearer.token_id)
            audit.record(session, caller.actor, "session.ended", caller.user)
        services.tokens.forget(*withdrawn_ids)
    response = Response(status_code=204, headers=_NO_STORE)
    login_sessions.end(request, response)
    return response
