"""Sessions of the page: the cookies that a login link is exchanged for, and what keeps other sites from using them.

A browser sends a session's cookie with every request to this address, whoever wrote the page that makes it. So a
request that changes something must also show that it comes from our own page: it carries in a header what only a script
of our own origin can read from the second cookie, and the browser says where it is from, which no script can make up.
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
    """What belongs to a session, and says nothing about it."""
    return hmac.new(session.encode(), b"hora csrf", hashlib.sha256).hexdigest()


def require_own_page(request: Request, session: str) -> None:
    """Refuse a change that our own page does not ask for. Raises `Forbidden`."""
    sent = request.headers.get(CSRF_HEADER, "")
    if not hmac.compare_digest(sent.encode(), csrf_token(session).encode()):
        raise Forbidden(f"a session changes things with the cookie {CSRF_COOKIE}'s value in the header {CSRF_HEADER}")
    if not _is_own(request):
        raise Forbidden("a session changes things from the service's own page alone")


def _is_own(request: Request) -> bool:
    """Whether what the browser says of the origin is said at all, and all of it names ours."""
    site, origin = request.headers.get("sec-fetch-site"), request.headers.get("origin")
    if site is not None and site != "same-origin":
        return False
    if origin is None:
        return site is not None
    # Not the scheme as well: behind a proxy that ends TLS this process does not know its own.
    return origin.partition("://")[2] == request.headers.get("host")


def begin(request: Request, response: Response, session: str, expires_at: datetime) -> None:
    """Set the cookies of a session: one that no script reads, and one that scripts of this origin read."""
    left_s = int((expires_at - datetime.now(UTC)).total_seconds())
    is_https = request.url.scheme == "https"
    for name, value, hidden in ((SESSION_COOKIE, session, True), (CSRF_COOKIE, csrf_token(session), False)):
        response.set_cookie(name, value, max_age=left_s, path="/", secure=is_https, httponly=hidden, samesite="lax")


def end(request: Request, response: Response) -> None:
    """Take the cookies back."""
    is_https = request.url.scheme == "https"
    for name, hidden in ((SESSION_COOKIE, True), (CSRF_COOKIE, False)):
        response.delete_cookie(name, path="/", secure=is_https, httponly=hidden, samesite="lax")
