"""Sessions of the page: their cookies, and the checks that keep other sites from using them. Called by `api.callers`.

A browser sends a session's cookie with every request to this address, also with requests that pages of other sites
make. So a request that changes something must show that it comes from our own page. It sends the value of a second
cookie in a header: only scripts of our own origin can read that cookie. And the browser's own headers name the origin
of the page: no script can forge them.
"""

import hashlib
import hmac
from datetime import UTC, datetime

from starlette.requests import Request
from starlette.responses import Response

from api.problems import Forbidden

SESSION_COOKIE = "hora_session"
CSRF_COOKIE = "hora_csrf"
CSRF_HEADER = "X-CSRF-Token"


def csrf_token(session: str) -> str:
    """The token that belongs to a session. It does not reveal the session."""
    return hmac.new(session.encode(), b"hora csrf", hashlib.sha256).hexdigest()


def require_own_page(request: Request, session: str) -> None:
    """Refuse a change that does not come from our own page. Raises `Forbidden`."""
    sent = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(sent.encode(), csrf_token(session).encode()):
        raise Forbidden(f"with a session, send the value of the cookie {CSRF_COOKIE} in the header {CSRF_HEADER}")
    if not _is_own(request):
        raise Forbidden("a session can make changes only from the service's own page")


def _is_own(request: Request) -> bool:
    """Whether the browser names an origin, and it is ours."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site is not None
    # The scheme is not compared: behind a proxy that ends TLS this process does not know it.
    return origin.partition("://")[2] == request.headers.get("host")


def begin(request: Request, response: Response, session: str, expires_at: datetime) -> None:
    """Set the cookies of a session: one that no script can read, and one that scripts of this origin can read."""
    left_s = int((expires_at - datetime.now(UTC)).total_seconds())
    is_https = request.url.scheme == "https"
    for name, value, hidden in ((SESSION_COOKIE, session, True), (CSRF_COOKIE, csrf_token(session), False)):
        response.set_cookie(name, value, max_age=left_s, path="/", secure=is_https, httponly=hidden, samesite="lax")


def end(request: Request, response: Response) -> None:
    """Remove the cookies."""
    is_https = request.url.scheme == "https"
    for name, hidden in ((SESSION_COOKIE, True), (CSRF_COOKIE, False)):
        response.delete_cookie(name, path="/", secure=is_https, httponly=hidden, samesite="lax")
