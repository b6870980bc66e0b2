"""What is remembered of tokens, and the limits of their requests. `rights` says which token each route takes."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from sqlalchemy import func, select, update

from api.access.rate_limits import RateLimits
from api.access.token_cache import TokenCache
from jobs.db.engine import Sessions
from jobs.db.tables import Token
from jobs.people import tokens
from jobs.runtime.settings import Settings

Clients = Callable[..., TestClient]

LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)


def sha256_of(sessions: Sessions, user: str) -> str:
    """The hash of the only token of a user."""
    with sessions() as session:
        return session.scalars(select(Token.sha256).where(Token.user_name == user)).one()


def test_some_tokens_are_remembered_for_three_seconds_and_not_beyond_their_expiry(
    sessions: Sessions, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    for user in ("ann", "ben", "cid"):
        client_of(user)
    client_of("tina", expires_at=datetime.now(UTC) + timedelta(seconds=600))
    ann, tina = sha256_of(sessions, "ann"), sha256_of(sessions, "tina")
    now = 1000.0
    cache = TokenCache(sessions, None, clock=lambda: now)
    assert cache.bearer_of(ann) is not None
    with sessions.begin() as session:  # as another process does
        session.execute(update(Token).where(Token.sha256 == ann).values(revoked_at=func.now()))
    now += 2.9
    assert cache.bearer_of(ann) is not None
    now += 0.1
    assert cache.bearer_of(ann) is None
    assert not cache.was_valid(ann)

    monkeypatch.setattr(TokenCache, "_FRESH_S", 1000.0)
    assert cache.look_up(tina) is not None
    assert cache.remembered(tina) is not None
    now += 600
    assert cache.remembered(tina) is None

    monkeypatch.setattr(TokenCache, "_MOST", 2)
    others = [sha256_of(sessions, user) for user in ("ben", "cid")]
    for sha256 in others:
        assert cache.look_up(sha256) is not None
    assert [cache.was_valid(sha256) for sha256 in (tina, *others)] == [False, True, True]


def test_a_token_that_is_revoked_while_it_is_looked_up_is_not_remembered(
    sessions: Sessions, client_of: Clients, monkeypatch: pytest.MonkeyPatch
) -> None:
    client_of("tina")
    sha256 = sha256_of(sessions, "tina")
    cache = TokenCache(sessions, None)
    with sessions() as session:
        found = tokens.find(session, sha256)
    assert found is not None

    def find_before_the_revocation(*_: object) -> Any:
        cache.forget(found.bearer.token_id)
        return found

    monkeypatch.setattr(tokens, "find", find_before_the_revocation)
    assert cache.look_up(sha256) is not None

    assert cache.remembered(sha256) is None


def test_a_token_with_too_many_requests_gets_429(api: TestClient, app: FastAPI, client_of: Clients) -> None:
    services = app.state.services
    limits = RateLimits(Settings(rate_limit_per_s=5), clock=lambda: 0.0)
    app.state.services = replace(services, limits=limits)
    ann, ben, slow = client_of("ann"), client_of("ben"), client_of("cid", rate_limit_per_s=0.1)

    assert [ann.get("/v1/me").status_code for _ in range(11)] == [200] * 10 + [429]  # a burst of two seconds
    answer = ann.get("/v1/me")
    assert answer.json()["type"] == "urn:hora:problem:rate-limited"
    assert answer.headers["retry-after"] == "1"
    assert ben.get("/v1/me").status_code == 200
    assert [slow.get("/v1/me").status_code for _ in range(2)] == [200, 429]
    assert slow.get("/v1/me").headers["retry-after"] == "10"
    assert {api.get("/v1/me").status_code for _ in range(30)} == {200}  # an admin's, without a limit of its own


def test_wrong_tokens_are_limited_without_locking_out_known_tokens(
    api: TestClient, app: FastAPI, client_of: Clients
) -> None:
    now = 0.0
    services = app.state.services
    app.state.services = replace(services, limits=RateLimits(Settings(auth_failures_per_s=0.5), clock=lambda: now))
    ann, new = client_of("ann"), client_of("new")
    assert ann.get("/v1/me").status_code == 200

    def guess(number: int) -> int:
        return api.get("/v1/me", headers={"Authorization": f"Bearer hora_guess{number}"}).status_code

    assert [guess(number) for number in range(12)] == [401] * 10 + [429] * 2
    assert api.get("/login", params={"code": "hora_guess"}).status_code == 429
    services.tokens._cached = {  # looked up long ago
        sha256: (bearer, 0.0) for sha256, (bearer, _) in services.tokens._cached.items()
    }
    assert ann.get("/v1/me").status_code == 200
    assert new.get("/v1/me").status_code == 429
    now += 2
    assert [new.get("/v1/me").status_code for _ in range(3)] == [200] * 3
    assert [guess(number) for number in range(2)] == [401, 429]

    now += 1000
    clients = [client_of(f"user{number}") for number in range(12)]  # they do not count against the limit
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(lambda client: client.get("/v1/me").status_code, clients))
    assert answers == [200] * 12
