"""Every error is problem+json: no token, no route, a fault of ours, a database that is away."""

import errno
import os

import psycopg
import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from psycopg.sql import SQL, Identifier

import migrations
from jobs.db.engine import Sessions
from jobs.db.tables import Token
from jobs.runtime.settings import Settings
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import SPEC, TOKEN, client_with


def test_invalid_authorization_headers_are_refused(api: TestClient, subtests: pytest.Subtests) -> None:
    basic, longer = f"Basic {TOKEN}", f"Bearer {TOKEN}x"
    for header in ("", "Bearer", "Bearer ", "Bearer hora_wrong", basic, TOKEN, longer, "Bearer \xe9"):
        with subtests.test(header=header):
            for known in ({}, {b"If-None-Match": b"*"}):
                answer = api.get("/v1/jobs", headers={b"Authorization": header.encode("latin-1"), **known})
                problem(answer, 401, "unauthorized")


def test_a_secret_appears_only_in_the_answer_that_creates_it(
    browser: TestClient, api: TestClient, database: str, capsys: pytest.CaptureFixture[str]
) -> None:
    new = api.post("/v1/tokens", json={"name": "x", "user": "alice"}).json()
    link = api.post("/v1/login-links").json()["path"]
    assert browser.get(link).status_code == 303
    texts = [TOKEN, new["token"], link.partition("=")[2], browser.cookies["hora_session"], "hora_mistyped"]
    answers = [
        browser.get(link), browser.get("/v1/me"), browser.post("/v1/jobs", json=SPEC),
        *(api.get("/v1/me", headers={"Authorization": f"Bearer {text}"}) for text in texts),
        *(api.get(f"/v1/{path}") for path in ("tokens", "tokens?user=alice", f"tokens/{new['id']}", "users", "audit")),
        api.delete(f"/v1/tokens/{new['id']}"),
        api.get("/v1/me", headers={"Authorization": f"Bearer {new['token']}"}),
    ]  # fmt: skip
    assert {answer.status_code for answer in answers} == {200, 204, 401, 403}
    with psycopg.connect(database) as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = 'public'").fetchall()
        queries = [SQL("SELECT t::text FROM {} t").format(Identifier(name)) for (name,) in tables]
        rows = [str(connection.execute(query).fetchall()) for query in queries]
    logged = capsys.readouterr().out

    assert "token.created" in "".join(rows)
    assert "/login" in logged
    for written in (*(f"{answer.headers} {answer.text}" for answer in answers), *rows, logged):
        assert [text for text in texts if text in written] == []


def test_an_unknown_route_parameter_or_request_id_is_not_accepted(api: TestClient) -> None:
    problem(api.get("/v2/jobs"), 404, "not-found")
    assert problem(api.get("/v1/jobs/a%2Fb"), 404, "not-found")["detail"] == "nothing has this address"
    problem(api.get("/v1/jobs/"), 404, "not-found")
    assert problem(api.get("/v1/jobs/0000"), 404, "job-not-found")["detail"] == "there is no job 0000"

    for path in ("/v1/hosts", "/v1/datasets", "/v1/models", "/v1/jobs/0000", "/healthz", "/readyz", "/metrics"):
        assert errors_of(api.get(path, params={"verbose": "1"})).keys() == {"verbose"}, path
    assert api.get("/healthz", headers={"X-Request-ID": "abc-1.2_3"}).headers["x-request-id"] == "abc-1.2_3"
    for strange in ("a b", "a\tb", "<script>", "x" * 65, ""):
        assert api.get("/healthz", headers={"X-Request-ID": strange}).headers["x-request-id"] != strange


def test_what_a_route_raises_becomes_a_problem_without_details(
    app: FastAPI, api: TestClient, sessions: Sessions
) -> None:
    """What each error means: `tests/unit/api/test_problems.py`."""

    def broken() -> None:
        raise RuntimeError("the password is swordfish")

    def full() -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    def store_a_nul() -> None:
        with sessions.begin() as session:
            session.add(Token(sha256="x", name="a\x00b"))

    for path, route in (("/broken", broken), ("/full", full), ("/nul", store_a_nul)):
        app.add_api_route(path, route)
    assert "swordfish" not in str(problem(api.get("/broken"), 500, "internal-error"))
    assert problem(api.get("/full"), 503, "unavailable")["detail"] == "the service has too many open files"
    problem(api.get("/nul"), 422, "invalid-request")


def test_without_a_database_the_service_stays_up_and_reports_it(configuration: Settings) -> None:
    with client_with(configuration, database_url="postgresql://hora@127.0.0.1:1/hora") as nowhere:
        assert nowhere.get("/healthz").status_code == 200
        for answer in (nowhere.get("/readyz"), nowhere.get("/v1/jobs"), nowhere.post("/v1/jobs", json=SPEC)):
            problem(answer, 503, "unavailable")
            assert int(answer.headers["retry-after"]) > 0
            assert "127.0.0.1" not in answer.text


def test_a_database_that_comes_back_is_used_again(api: TestClient, database: str, postgres_url: str) -> None:
    assert api.get("/v1/jobs").status_code == 200
    name = psycopg.conninfo.conninfo_to_dict(database)["dbname"]
    with psycopg.connect(postgres_url, autocommit=True) as elsewhere:

        def close_every_connection() -> None:
            query = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE datname = %s"
            elsewhere.execute(query, [name])

        close_every_connection()
        assert api.post("/v1/jobs", json=SPEC).status_code == 201

        elsewhere.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS false')
        close_every_connection()
        problem(api.get("/v1/jobs"), 503, "unavailable")
        problem(api.post("/v1/jobs", json=SPEC), 503, "unavailable")
        elsewhere.execute(f'ALTER DATABASE "{name}" ALLOW_CONNECTIONS true')
        assert api.post("/v1/jobs", json=SPEC).status_code == 201


def test_a_database_may_be_migrated_after_the_service_started(configuration: Settings, bare_url: str) -> None:
    with client_with(configuration, database_url=bare_url) as client:
        problem(client.get("/readyz"), 503, "unavailable")
        problem(client.get("/v1/jobs"), 503, "unavailable")
        migrations.upgrade(bare_url)

        assert client.get("/readyz").status_code == 200
        assert client.get("/v1/jobs").status_code == 200
