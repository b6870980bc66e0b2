"""Log in to the page: a link that works once, the cookies, and who may use them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select, text, update

from api.access.login_sessions import csrf_token
from jobs.db.engine import Sessions
from jobs.db.tables import Token
from jobs.people import tokens
from jobs.people.tokens import LoginRefused
from tests.integration.api.starting_rows import SPEC
from tests.waiting import until

Clients = Callable[..., TestClient]

OURS = {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def browser(api: TestClient, app: FastAPI) -> TestClient:
    """A client without a token that keeps cookies and does not follow redirects."""
    client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
    client.portal = api.portal
    return client


def link(client: TestClient, headers: dict[str, str] | None = None) -> str:
    """The path of a new link."""
    answer = client.post("/v1/login-links", headers=headers)
    assert answer.status_code == 201, answer.text
    assert answer.headers["cache-control"] == "no-store"
    path: str = answer.json()["path"]
    return path


def csrf(browser: TestClient) -> dict[str, str]:
    """What the page sends with a change."""
    return {"X-CSRF-Token": browser.cookies["hora_csrf"], **OURS}


def problem(answer: Any, status: int, slug: str) -> str:
    document = answer.json()
    assert (answer.status_code, document["type"]) == (status, f"urn:hora:problem:{slug}"), answer.text
    detail: str = document["detail"]
    return detail


def age(sessions: Sessions, kind: str, **values: Any) -> None:
    """Change the tokens of a kind."""
    with sessions.begin() as session:
        session.execute(update(Token).where(Token.kind == kind).values(**values))


def test_a_login_link_opens_a_session(client_of: Clients, browser: TestClient) -> None:
    alice = client_of("alice", rate_limit_per_s=50)
    answer = browser.get(link(alice))

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    session, other = sorted(answer.headers.get_list("set-cookie"), reverse=True)
    assert session.startswith("hora_session=hora_")
    assert other.startswith("hora_csrf=")
    for cookie, hidden in ((session, True), (other, False)):
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"path=/", "samesite=lax"} <= parts
        assert ("httponly" in parts) is hidden
        assert "secure" not in parts
        assert any(part.startswith("max-age=431") or part == "max-age=43200" for part in parts)
    me = browser.get("/v1/me").json()
    assert (me["user"], me["scope"], me["kind"], me["rate_limit_per_s"]) == ("alice", "submit", "session", 50)


def test_over_https_the_cookies_are_secure(client_of: Clients, browser: TestClient) -> None:
    answer = browser.get(f"https://testserver{link(client_of('alice'))}")

    assert all("Secure" in cookie for cookie in answer.headers.get_list("set-cookie"))


def test_a_link_works_once(client_of: Clients, browser: TestClient) -> None:
    path = link(client_of("alice"))
    assert browser.head(path).status_code == 405  # a HEAD request of a link checker does not use it up
    assert browser.get(path).status_code == 303
    browser.cookies.clear()

    answer = browser.get(path)
    problem(answer, 403, "login-refused")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("wanted", ["/", "/jobs/3k9v?tab=logs&rank=1", "/compare?jobs=a,b#loss", "/./x", "/ä b"])
def test_a_link_leads_to_the_requested_page(client_of: Clients, browser: TestClient, wanted: str) -> None:
    answer = browser.get(f"{link(client_of('alice'))}&next={quote(wanted)}")

    assert answer.status_code == 303
    assert unquote(answer.headers["location"]) == wanted


@pytest.mark.parametrize(
    "elsewhere",
    ["//evil.test", "/\\evil.test", "\\\\evil.test", "https://evil.test", "javascript:alert(1)", "evil", "",
     "/\t/evil.test", "/\r\nSet-Cookie: a=b", "/x\\y", "/\x85/evil.test", "/" + "a" * 2000],
)  # fmt: skip
def test_a_link_leads_to_no_other_site(client_of: Clients, browser: TestClient, elsewhere: str) -> None:
    path = link(client_of("alice"))
    answer = browser.get(f"{path}&next={quote(elsewhere)}")

    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == ["next"]
    assert "location" not in answer.headers
    assert browser.get(path).status_code == 303  # nothing was used up


def test_a_browser_with_a_refused_link_is_redirected_to_the_page(
    client_of: Clients, browser: TestClient, sessions: Sessions
) -> None:
    used, old = (link(client_of(user)) for user in ("alice", "bob"))
    assert browser.get(used).status_code == 303
    browser.cookies.clear()
    age(sessions, "login", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    for path in (used, old, "/login?code=hora_guess"):
        answer = browser.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/?signin=refused")
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        problem(browser.get(path, headers={"Accept": "application/json"}), 403, "login-refused")


def test_a_typed_token_opens_a_session_that_replaces_the_old_one(client_of: Clients, browser: TestClient) -> None:
    """The page's script sends the token in a header. A session that is still open does not matter."""
    assert browser.get(link(client_of("alice"))).status_code == 303
    typed = client_of("ben", "read").headers["Authorization"]
    path = link(browser, {"Authorization": typed, **OURS})

    assert browser.get(f"{path}&next=/hosts").headers["location"] == "/hosts"
    assert browser.get("/v1/me").json()["user"] == "ben"


def test_two_concurrent_uses_of_a_link_open_one_session(client_of: Clients, sessions: Sessions) -> None:
    code = link(client_of("alice")).partition("=")[2]

    def sign_in() -> None:
        with sessions.begin() as session:
            tokens.start_session(session, code)

    def somebody_waits() -> bool:
        with sessions() as session:
            return bool(session.scalar(text("SELECT count(*) FROM pg_locks WHERE NOT granted")))

    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            tokens.start_session(session, code)
            second = pool.submit(sign_in)
            until(somebody_waits, what="the second comes while the first is being let in")
        with pytest.raises(LoginRefused):
            second.result(timeout=120)


def test_a_link_expires_after_ten_minutes(client_of: Clients, browser: TestClient, sessions: Sessions) -> None:
    path = link(client_of("alice"))
    with sessions() as session:
        remaining = session.scalars(select(Token.expires_at - func.now()).where(Token.kind == "login")).one()
    assert timedelta(minutes=9) < remaining <= timedelta(minutes=10)
    age(sessions, "login", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    problem(browser.get(path), 403, "login-refused")


def test_a_link_ends_with_the_token_that_created_it(api: TestClient, client_of: Clients, browser: TestClient) -> None:
    end = datetime.now(UTC) + timedelta(hours=1)
    alice = client_of("alice", expires_at=end)
    assert browser.get(link(alice)).status_code == 303
    assert datetime.fromisoformat(browser.get("/v1/me").json()["expires_at"]) == end
    soon = client_of("bob", expires_at=datetime.now(UTC) + timedelta(minutes=1))
    assert soon.post("/v1/login-links").json()["expires_at"] == soon.get("/v1/me").json()["expires_at"]
    unused, own = link(alice), alice.get("/v1/me").json()["token_id"]
    assert api.delete(f"/v1/tokens/{own}").status_code == 204

    problem(browser.get("/v1/me"), 401, "unauthorized")  # the session went with it, at once
    problem(browser.get(unused), 403, "login-refused")


def test_a_disabled_user_does_not_log_in(api: TestClient, client_of: Clients, browser: TestClient) -> None:
    path = link(client_of("alice"))
    assert api.patch("/v1/users/alice", json={"disabled": True}).status_code == 200

    problem(browser.get(path), 403, "login-refused")


def test_a_bearer_token_and_a_session_are_refused_as_login_codes(client_of: Clients, browser: TestClient) -> None:
    alice = client_of("alice")
    assert browser.get(link(alice)).status_code == 303
    bearer = alice.headers["Authorization"].partition(" ")[2]

    for code in (bearer, browser.cookies["hora_session"], "hora_unknown"):
        problem(browser.get("/login", params={"code": code}), 403, "login-refused")
    assert browser.get("/login").status_code == 422
    problem(browser.post("/v1/login-links", headers=csrf(browser)), 403, "forbidden")  # no chain of sessions


def test_a_change_with_the_csrf_header_is_accepted(client_of: Clients, browser: TestClient) -> None:
    assert browser.get(link(client_of("alice"))).status_code == 303
    good = csrf(browser)

    for headers in (
        good,
        {name: value for name, value in good.items() if name != "Origin"},
        {name: value for name, value in good.items() if name != "Sec-Fetch-Site"},
    ):
        assert browser.post("/v1/jobs", json=SPEC, headers=headers).status_code == 201


@pytest.mark.parametrize(
    "changed",
    [
        {"X-CSRF-Token": None},
        {"X-CSRF-Token": ""},
        {"X-CSRF-Token": "x" * 64},
        {"X-CSRF-Token": "of another session"},
        {"Origin": "https://evil.example"},
        {"Origin": "http://testserver.evil.example"},
        {"Origin": "http://testserver:8401"},
        {"Origin": "null"},
        {"Origin": "http://["},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Sec-Fetch-Site": "none"},
        {"Origin": None, "Sec-Fetch-Site": None},
    ],
    ids=lambda changed: " ".join(f"{name}={value}" for name, value in changed.items()),
)
def test_a_change_that_another_page_may_have_made_is_refused(
    client_of: Clients, browser: TestClient, changed: dict[str, str | None]
) -> None:
    assert browser.get(link(client_of("alice"))).status_code == 303
    headers = csrf(browser) | changed
    if headers["X-CSRF-Token"] == "of another session":
        headers["X-CSRF-Token"] = csrf_token("hora_another")
    sent_headers = {name: value for name, value in headers.items() if value is not None}

    for method, path in (("POST", "/v1/jobs"), ("DELETE", "/v1/tokens/0"), ("POST", "/logout")):
        problem(browser.request(method, path, headers=sent_headers), 403, "forbidden")
    assert browser.get("/v1/jobs", headers=sent_headers).json()["items"] == []  # reading changes nothing


def test_a_token_in_the_header_takes_precedence_over_the_cookie(client_of: Clients, browser: TestClient) -> None:
    assert browser.get(link(client_of("alice", "read"))).status_code == 303
    ben = client_of("ben").headers["Authorization"]

    assert browser.get("/v1/me", headers={"Authorization": ben}).json()["user"] == "ben"
    assert browser.post("/v1/jobs", json=SPEC, headers={"Authorization": ben}).status_code == 201
    assert browser.get("/v1/me", headers={"Authorization": "Bearer hora_wrong"}).status_code == 401
    assert browser.post("/v1/jobs", json=SPEC, headers=csrf(browser)).status_code == 403  # its scope is the link's


def test_logging_out_ends_the_session(client_of: Clients, browser: TestClient, sessions: Sessions) -> None:
    alice = client_of("alice")
    assert browser.get(link(alice)).status_code == 303
    kept_cookies = dict(browser.cookies)
    answer = browser.post("/logout", headers=csrf(browser))

    assert answer.status_code == 204
    assert dict(browser.cookies) == {}
    for name, value in kept_cookies.items():
        browser.cookies.set(name, value)
    problem(browser.get("/v1/me"), 401, "unauthorized")
    assert alice.get("/v1/me").status_code == 200
    assert alice.post("/logout").status_code == 204  # a token is no session: it stays
    assert alice.get("/v1/me").status_code == 200


def test_a_session_expires_after_twelve_hours(
    client_of: Clients, browser: TestClient, sessions: Sessions, app: FastAPI
) -> None:
    assert browser.get(link(client_of("alice"))).status_code == 303
    with sessions() as session:
        remaining = session.scalars(select(Token.expires_at - func.now()).where(Token.kind == "session")).one()
    assert timedelta(hours=11, minutes=59) < remaining <= timedelta(hours=12)
    age(sessions, "session", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    problem(browser.get("/v1/me"), 401, "unauthorized")
