"""Users create tokens for themselves and for others. Admins disable users."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from threading import Barrier
from typing import Any

from fastapi.testclient import TestClient
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Token, User
from jobs.people import rights
from jobs.people.tokens import new_token
from tests.integration.api.answers import created, pages_of, problem
from tests.integration.api.starting_rows import TOKEN
from tests.integration.jobs.writing import change, write

Clients = Callable[..., TestClient]


def create_token(client: TestClient, **fields: Any) -> dict[str, Any]:
    """A new token."""
    return created(client, "/v1/tokens", {"name": "a script"} | fields)


def why_not(answer: Any, status: int, slug: str) -> str:
    """What an answer that refuses says."""
    return str(problem(answer, status, slug)["detail"])


def with_token(client: TestClient, token: str) -> dict[str, Any]:
    """Who one is with a token."""
    answer = client.get("/v1/me", headers={"Authorization": f"Bearer {token}"})
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


def test_a_token_is_shown_once_and_lets_its_user_in(api: TestClient) -> None:
    answer = api.post("/v1/tokens", json={"name": "nightly", "user": "alice", "scope": "read", "rate_limit_per_s": 7.5})
    assert answer.status_code == 201
    assert answer.headers["cache-control"] == "no-store"
    token = answer.json()
    assert token["token"].startswith("hora_")
    assert len({new_token() for _ in range(1000)}) == 1000
    assert len(token["token"]) > 40
    assert (token["user"], token["scope"], token["name"]) == ("alice", "read", "nightly")
    assert api.put("/v1/projects/default/members/alice").status_code == 200
    me = with_token(api, token["token"])
    assert (me["user"], me["scope"], me["kind"]) == ("alice", "read", "bearer")
    assert (me["rate_limit_per_s"], me["projects"]) == (7.5, ["default"])
    assert api.get("/v1/me").json()["rate_limit_per_s"] is None, "an admin has no limit"

    shown_token = api.get(answer.headers["location"]).json()
    assert shown_token["last_used_at"] is not None
    del token["token"]
    assert shown_token == token | {"last_used_at": shown_token["last_used_at"]}
    assert shown_token["created_by"] == api.get("/v1/me").json()["token_id"]


def test_users_list_their_own_tokens_page_by_page(api: TestClient, client_of: Clients) -> None:
    alice = client_of("alice")
    ids = [create_token(alice, name=f"number {number}")["id"] for number in range(3)]
    create_token(api, user="ben")

    listed = [one for page in pages_of(alice, "/v1/tokens", limit=2) for one in page]
    assert [one["id"] for one in listed][:3] == ids[::-1]
    assert {one["user"] for one in listed} == {"alice"}
    assert not any("token" in one for one in listed)
    assert len(api.get("/v1/tokens", params={"user": "alice"}).json()["items"]) == 4
    cursor = alice.get("/v1/tokens", params={"limit": 2}).json()["next_cursor"]
    why_not(alice.get("/v1/tokens", params={"cursor": cursor, "live": "true"}), 422, "invalid-request")


def test_a_revoked_token_is_refused_at_once(client_of: Clients) -> None:
    alice = client_of("alice")
    token = create_token(alice)
    assert with_token(alice, token["token"])["user"] == "alice"
    for strange in ("0", "x" * 40):
        why_not(alice.delete(f"/v1/tokens/{strange}"), 404, "token-not-found")

    assert alice.delete(f"/v1/tokens/{token['id']}").status_code == 204
    assert alice.get("/v1/me", headers={"Authorization": f"Bearer {token['token']}"}).status_code == 401
    assert alice.delete(f"/v1/tokens/{token['id']}").status_code == 204  # asking again is fine
    live = alice.get("/v1/tokens", params={"live": "true"}).json()["items"]
    gone = alice.get("/v1/tokens", params={"live": "false"}).json()["items"]
    assert token["id"] not in [one["id"] for one in live]
    assert [one["id"] for one in gone] == [token["id"]]
    assert gone[0]["revoked_at"] is not None


def test_a_token_cannot_create_one_with_a_longer_life_or_more_requests(client_of: Clients) -> None:
    """Nor one with a wider scope, or for another user: `rights/table.py`."""
    until = datetime.now(UTC) + timedelta(hours=1)
    reader, submitter = client_of("rob", "read"), client_of("sue", "submit", expires_at=until, rate_limit_per_s=20)

    def asks(client: TestClient, **fields: Any) -> str:
        return why_not(client.post("/v1/tokens", json={"name": "more"} | fields), 403, "forbidden")

    assert "expires later" in asks(submitter, expires_in_s=3700)
    assert "20 requests a second" in asks(submitter, rate_limit_per_s=21)
    assert "100 requests a second" in asks(reader, scope="read", rate_limit_per_s=101)
    for field, value in (("user", "../x"), ("kind", "session"), ("token", "hora_mine"), ("expires_in_s", 10**12)):
        refused = reader.post("/v1/tokens", json={"name": "x", field: value})
        assert [error["field"] for error in refused.json()["errors"]] == [field]
    assert create_token(reader, scope="read")["expires_at"] is None
    heir = create_token(submitter)
    assert datetime.fromisoformat(heir["expires_at"]) == until
    assert heir["rate_limit_per_s"] == 20
    assert create_token(submitter, expires_in_s=60, rate_limit_per_s=3)["rate_limit_per_s"] == 3


def test_users_are_listed_with_the_number_and_scope_of_their_tokens(api: TestClient, client_of: Clients) -> None:
    for user, scope in (("cid", "read"), ("ben", "read"), ("ben", "submit"), ("ann", "admin")):
        client_of(user, scope)
    client_of("cid", expires_at=datetime(2020, 1, 1, tzinfo=UTC))

    users = [user for page in pages_of(api, "/v1/users", limit=2) for user in page]
    assert [(user["name"], user["tokens"], user["scope"]) for user in users] == [
        ("admin", 1, "admin"), ("ann", 1, "admin"), ("ben", 2, "submit"), ("cid", 1, "read"),
    ]  # fmt: skip
    assert users[0]["last_used_at"] is not None


def test_a_disabled_user_is_refused_until_enabled_again(api: TestClient, client_of: Clients) -> None:
    alice = client_of("alice")
    assert alice.get("/v1/me").status_code == 200

    shut_out = api.patch("/v1/users/alice", json={"disabled": True})
    assert shut_out.status_code == 200
    assert alice.get("/v1/me").status_code == 401  # remembered or not
    again = api.patch("/v1/users/alice", json={"disabled": True}).json()
    assert again["disabled_at"] == shut_out.json()["disabled_at"]
    why_not(api.post("/v1/tokens", json={"name": "x", "user": "alice"}), 409, "user-disabled")
    assert api.patch("/v1/users/alice", json={"disabled": False}).json()["disabled_at"] is None
    assert alice.get("/v1/me").status_code == 200
    why_not(api.patch("/v1/users/nobody", json={"disabled": True}), 404, "user-not-found")


def test_the_last_admin_cannot_be_locked_out(api: TestClient, client_of: Clients) -> None:
    own = api.get("/v1/me").json()["token_id"]
    client_of("elsa", "admin", expires_at=datetime(2020, 1, 1, tzinfo=UTC))
    client_of("sara", "admin", kind="session")
    client_of("sue", "submit")
    why_not(api.delete(f"/v1/tokens/{own}"), 409, "last-admin")
    why_not(api.patch("/v1/users/admin", json={"disabled": True}), 409, "last-admin")
    assert api.get("/v1/me").status_code == 200
    second_admin = client_of("ann", "admin")

    assert second_admin.patch("/v1/users/admin", json={"disabled": True}).status_code == 200
    assert api.get("/v1/me").status_code == 401
    why_not(second_admin.patch("/v1/users/ann", json={"disabled": True}), 409, "last-admin")


def test_two_admins_do_not_lock_each_other_out(sessions: Sessions, client_of: Clients) -> None:
    client_of("ann", "admin")
    client_of("ben", "admin")
    change(sessions, update(User).where(User.name == "admin").values(disabled_at=datetime.now(UTC)))
    together = Barrier(2)

    def shut_out(name: str) -> bool:
        together.wait(120)
        try:
            write(sessions, rights.set_disabled, name, disabled=True)
        except rights.LastAdmin:
            return False
        return True

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(shut_out, ("ann", "ben"))) == [False, True]


def test_a_revoked_token_of_the_stack_stays_revoked(api: TestClient, client_of: Clients, sessions: Sessions) -> None:
    second_admin, token_id = client_of("ann", "admin"), api.get("/v1/me").json()["token_id"]
    assert second_admin.delete(f"/v1/tokens/{token_id}").status_code == 204
    assert {api.get("/v1/me").status_code for _ in range(2)} == {401}  # each look-up stores it, where it is not there
    with sessions() as session:
        assert session.scalars(select(Token.revoked_at).where(Token.id == token_id)).one() is not None
    assert TOKEN not in second_admin.get("/v1/tokens", params={"user": "admin"}).text
