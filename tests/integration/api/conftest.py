"""The API on a real database of the test's own; the broker is in memory."""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.model.scopes import Scope
from jobs.people.tokens import store_token
from tests.integration.api.answers import created
from tests.integration.api.starting_rows import SPEC, TOKEN


@pytest.fixture
def api(app: FastAPI) -> Iterator[TestClient]:
    """A client with a token."""
    with TestClient(app, raise_server_exceptions=False) as client:
        client.headers["Authorization"] = f"Bearer {TOKEN}"
        yield client


@pytest.fixture
def client_of(api: TestClient, app: FastAPI, sessions: Sessions) -> Callable[..., TestClient]:
    """Makes a client of the running app for a user: `client_of("alice")`, `client_of("ann", "read")`.

    Keywords are those of `jobs.people.tokens.store_token`.
    """
    numbers = count(1)

    def make(user: str, scope: str = "submit", **values: Any) -> TestClient:
        token = f"hora_test-{user}-{next(numbers)}"
        with sessions.begin() as session:
            store_token(session, token, user=user, scope=Scope(scope), **values)
        client = TestClient(app, raise_server_exceptions=False, headers={"Authorization": f"Bearer {token}"})
        client.portal = api.portal  # one event loop for all
        return client

    return make


@pytest.fixture
def browser(api: TestClient, app: FastAPI) -> TestClient:
    """A client without a token that keeps cookies and does not follow redirects."""
    client = TestClient(app, raise_server_exceptions=False, follow_redirects=False)
    client.portal = api.portal
    return client


@pytest.fixture
def submit_job(api: TestClient) -> Callable[..., str]:
    """Submits a job with changes to the smallest spec. Returns its id."""

    def submit(**changes: object) -> str:
        job_id: str = created(api, "/v1/jobs", SPEC | changes)["id"]
        return job_id

    return submit
