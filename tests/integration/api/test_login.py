"""Log in to the page: a link that works once, the cookies, and who may use them."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote, unquote

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import ColumnElement, func, select, update

from api.access.login_sessions import csrf_token
from jobs.db.engine import Sessions
from jobs.db.tables import Token
from jobs.people import tokens
from jobs.people.tokens import LoginRefused
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import SPEC
from tests.integration.jobs.job_rows import waiting_for_locks
from tests.integration.jobs.writing import change, write
from tests.waiting import until

Clients = Callable[..., TestClient]

OURS = {"Origin": "http://testserver", "Sec-Fetch-Site": "same-origin"}


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


def age(sessions: Sessions, kind: str, *which: ColumnElement[bool], **values: Any) -> None:
    """Change the tokens of a kind."""
    change(sessions, update(Token).where(Token.kind == kind, *which).values(**values))


def test_a_login_link_opens_a_session_once(client_of: Clients, browser: TestClient) -> None:
    alice = client_of("alice", rate_limit_per_s=50)
    path = link(alice)
    assert browser.head(path).status_code == 405  # a HEAD request of a link checker does not use it up
    answer = browser.get(path)

    assert (answer.status_code, answer.headers["location"]) == (303, "/")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["referrer-policy"] == "no-referrer"
    session, other = sorted(answer.headers.get_list("set-cookie"), reverse=True)
    for cookie, begin, hidden in ((session, "hora_session=hora_", True), (other, "hora_csrf=", False)):
        assert cookie.startswith(begin)
        parts = {part.strip().lower() for part in cookie.split(";")[1:]}
        assert {"path=/", "samesite=lax"} <= parts
        assert ("httponly" in parts, "secure" in parts) == (hidden, False)
        assert any(part.startswith("max-age=431") or part == "max-age=43200" for part in parts)
    me = browser.get("/v1/me").json()
    assert (me["user"], me["scope"], me["kind"], me["rate_limit_per_s"]) == ("alice", "submit", "session", 50)

    browser.cookies.clear()
    again = browser.get(path)
    problem(again, 403, "login-refused")
    assert "set-cookie" not in again.headers
    over_https = browser.get(f"https://testserver{link(alice)}")
    assert all("Secure" in cookie for cookie in over_https.headers.get_list("set-cookie"))


def test_a_link_leads_to_the_requested_page_and_to_no_other_site(client_of: Clients, browser: TestClient) -> None:
    alice = client_of("alice")
    for page in ("/jobs/3k9v?tab=logs&rank=1", "/compare?jobs=a,b#loss", "/ä b"):
        answer = browser.get(f"{link(alice)}&next={quote(page)}")
        assert answer.status_code == 303
        assert unquote(answer.headers["location"]) == page
    path = link(alice)
    for elsewhere in (
        "//evil.test", "/\\evil.test", "\\\\evil.test", "https://evil.test", "javascript:alert(1)", "evil", "",
        "/\t/evil.test", "/\r\nSet-Cookie: a=b", "/x\\y", "/\x85/evil.test", "/" + "a" * 2000,
    ):  # fmt: skip
        answer = browser.get(f"{path}&next={quote(elsewhere)}")
        assert errors_of(answer).keys() == {"next"}, elsewhere
        assert "location" not in answer.headers
    assert browser.get(path).status_code == 303  # nothing was used up


def test_a_browser_with_a_refused_link_is_redirected_to_the_page(
    api: TestClient, client_of: Clients, browser: TestClient, sessions: Sessions
) -> None:
    used, of_disabled, old = (link(client_of(user)) for user in ("alice", "carol", "bob"))
    assert browser.get(used).status_code == 303
    browser.cookies.clear()
    assert api.patch("/v1/users/carol", json={"disabled": True}).status_code == 200
    with sessions() as session:
        ends = session.scalars(select(Token.expires_at - func.now()).where(Token.kind == "login")).all()
    assert all(timedelta(minutes=9) < remaining <= timedelta(minutes=10) for remaining in ends)
    age(sessions, "login", Token.user_name == "bob", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    for path in (used, of_disabled, old, "/login?code=hora_guess"):
        answer = browser.get(path, headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
        assert (answer.status_code, answer.headers["location"]) == (303, "/?signin=refused")
        assert answer.headers["cache-control"] == "no-store"
        assert "set-cookie" not in answer.headers
        problem(browser.get(path, headers={"Accept": "application/json"}), 403, "login-refused")


def test_a_token_in_the_header_goes_before_the_session_and_may_open_another(
    client_of: Clients, browser: TestClient
) -> None:
    """The page's script sends a typed token in the header. A session that is still open does not matter."""
    alice, ben, reader = client_of("alice", "read"), client_of("ben"), client_of("cid", "read")
    assert browser.get(link(alice)).status_code == 303
    assert browser.post("/v1/jobs", json=SPEC, headers=ben.headers).status_code == 201
    assert browser.get("/v1/me", headers={"Authorization": "Bearer hora_wrong"}).status_code == 401
    assert browser.post("/v1/jobs", json=SPEC, headers=csrf(browser)).status_code == 403  # its scope is the link's
    problem(browser.post("/v1/login-links", headers=csrf(browser)), 403, "forbidden")  # no chain of sessions

    bearer = alice.headers["Authorization"].partition(" ")[2]
    for code in (bearer, browser.cookies["hora_session"], "hora_unknown"):
        problem(browser.get("/login", params={"code": code}), 403, "login-refused")
    assert browser.get("/login").status_code == 422
    path = link(browser, {"Authorization": reader.headers["Authorization"], **OURS})
    assert browser.get(f"{path}&next=/hosts").headers["location"] == "/hosts"
    assert browser.get("/v1/me").json()["user"] == "cid"


def test_two_concurrent_uses_of_a_link_open_one_session(client_of: Clients, sessions: Sessions) -> None:
    code = link(client_of("alice")).partition("=")[2]

    def sign_in() -> None:
        write(sessions, tokens.start_session, code)

    with ThreadPoolExecutor(1) as pool:
        with sessions.begin() as session:
            tokens.start_session(session, code)
            second = pool.submit(sign_in)
            until(lambda: waiting_for_locks(sessions), what="the second comes while the first is being let in")
        with pytest.raises(LoginRefused):
            second.result(timeout=120)


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


FOREIGN: list[dict[str, str | None]] = [
    {"X-CSRF-Token": None}, {"X-CSRF-Token": ""}, {"X-CSRF-Token": "x" * 64},
    {"X-CSRF-Token": csrf_token("hora_another")}, {"Origin": "https://evil.example"},
    {"Origin": "http://testserver.evil.example"}, {"Origin": "http://testserver:8401"}, {"Origin": "null"},
    {"Origin": "http://["}, {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"},
    {"Sec-Fetch-Site": "none"}, {"Origin": None, "Sec-Fetch-Site": None},
]  # fmt: skip


def test_a_change_that_another_page_may_have_made_is_refused(api: TestClient, browser: TestClient) -> None:
    assert browser.get(link(api)).status_code == 303

    def headers(changed: dict[str, str | None]) -> dict[str, str]:
        return {name: value for name, value in (csrf(browser) | changed).items() if value is not None}

    for changed in FOREIGN:
        for path in ("/v1/jobs", "/logout"):
            problem(browser.post(path, headers=headers(changed)), 403, "forbidden")
        reading = browser.get("/v1/jobs", headers=headers(changed))
        assert reading.json()["items"] == [], changed  # it changes nothing
    for own in ({}, {"Origin": None}, {"Sec-Fetch-Site": None}):
        assert browser.post("/v1/jobs", json=SPEC, headers=headers(own)).status_code == 201


def test_a_session_ends_after_twelve_hours_or_by_logging_out(
    client_of: Clients, browser: TestClient, sessions: Sessions
) -> None:
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

    assert browser.get(link(alice)).status_code == 303
    live = Token.revoked_at.is_(None), Token.kind == "session"
    with sessions() as session:
        remaining = session.scalars(select(Token.expires_at - func.now()).where(*live)).one()
    assert timedelta(hours=11, minutes=59) < remaining <= timedelta(hours=12)
    age(sessions, "session", expires_at=datetime.now(UTC) - timedelta(seconds=1))
    problem(browser.get("/v1/me"), 401, "unauthorized")
