"""Every route, with every kind of token, by every kind of person, on every kind of object: `table` says who may.

A route without a row fails here, and so does a row without a route.
"""

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from anyio.from_thread import BlockingPortal
from fastapi import FastAPI
from fastapi.routing import iter_route_contexts
from fastapi.testclient import TestClient
from sqlalchemy import select

from api.main import app_for
from jobs.db.engine import engine_for, sessions_for
from jobs.db.tables import AuditEntry, Token
from jobs.model.scopes import Scope
from jobs.people.tokens import token_sha256
from jobs.runtime.settings import Settings
from tests.conftest import a_clone
from tests.integration.api.rights import world as people
from tests.integration.api.rights.asking import CLIENT, Reply, ask
from tests.integration.api.rights.table import AUDITED, FORBIDDEN, ROWS, SAFE, UNAUDITED, Case, Row, Shown
from tests.integration.api.rights.world import ASKERS, Asker, World, rows_written

NO_TOKEN = "401 unauthorized"
# Of a request without a valid token nothing else counts: not that it is a poll, which is answered by a shorter path,
# nor that its body is broken.
POLL, BROKEN = {"If-None-Match": "*"}, b"{"


@pytest.fixture(scope="module")
def world(postgres_url: str, _template: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[World, Any]]:
    """The world, and the portal to the app's event loop."""
    folder: Path = tmp_path_factory.mktemp("rights")
    with a_clone(postgres_url, _template) as database:
        settings = Settings(
            database_url=database, broker_url="memory://", home=folder, data_roots=str(folder / "data"),
            code="on", rate_limit_per_s=1e6, auth_failures_per_s=1e6,
        )  # fmt: skip
        engine, app = engine_for(database), app_for(settings)
        ids = people.make(sessions_for(engine), settings)
        with TestClient(app) as client:
            yield World(app, engine, settings, ids), client.portal
        engine.dispose()


def expected_verdict(row: Row, case: Case, asker: Asker) -> str:
    """What the table says: the status, and for a refusal its type."""
    if row.needs is None:
        return str(case.ok)
    if asker.scope is None:
        return NO_TOKEN
    if asker.is_session and row.method not in SAFE and not (asker.has_csrf and case.sessions):
        return FORBIDDEN
    if not asker.scope.covers(row.needs):
        return FORBIDDEN
    is_known = asker.scope is Scope.ADMIN or asker.person in case.may.split()
    if not is_known or not asker.scope.covers(case.needs or row.needs):
        return case.refused
    return FORBIDDEN if case.blocked else str(case.ok)


def expected_error(row: Row, asker: Asker) -> str:
    """What the header of a refusal has to say about the token, for the client."""
    if row.needs is None:
        return ""
    if asker.scope is None:
        return 'error="invalid_token"' if asker.headers else 'Bearer realm="hora"'
    is_other_page = asker.is_session and not asker.has_csrf and row.method not in SAFE
    return "" if asker.scope.covers(row.needs) or is_other_page else 'error="insufficient_scope"'


def is_shown(shown: Shown, asker: Asker) -> bool:
    """Whether an allowed answer has the object."""
    scope = asker.scope
    assert scope is not None
    has_right = asker.person in shown.may.split() or (shown.admins and scope is Scope.ADMIN)
    return has_right and scope.covers(shown.needs)


def body_of(case: Case, ids: dict[str, str]) -> tuple[bytes, dict[str, str]]:
    """The body of a case's request, and its headers."""
    if case.body is None or isinstance(case.body, bytes):
        return case.body or b"", dict(case.headers)
    return filled(json.dumps(case.body), ids).encode(), {"Content-Type": "application/json", **case.headers}


def filled(text: str, ids: dict[str, str]) -> str:
    """A text with ids in the place of the names in braces. A name without an id stands for itself."""
    return re.sub(r"\{([\w.-]+)\}", lambda match: ids.get(match[1], match[1]), text)


class Outcome(NamedTuple):
    """The answer to a request, and what the request left behind."""

    reply: Reply
    rows_written: int
    is_file_changed: bool
    audited: list[Any]


def try_case(world: World, portal: BlockingPortal, row: Row, case: Case, asker: Asker) -> Outcome:
    """Send the request of a case as an asker."""
    body, headers = body_of(case, world.ids)
    headers |= asker.headers
    if asker.scope is None and row.needs is not None:
        body, headers = BROKEN, headers | POLL
    address = filled(row.address(case), world.ids)
    with world.undone() as connection:
        files = world.files()
        reply: Reply = portal.call(partial(ask, world.app, row.method, address, headers, body))
        written = rows_written(connection)
        return Outcome(reply, written, world.files() != files, connection.execute(ENTRIES).all() if written else [])


ENTRIES = select(
    AuditEntry.action, AuditEntry.subject, AuditEntry.actor, Token.sha256, AuditEntry.request_id, AuditEntry.address
).join(Token, Token.id == AuditEntry.token_id)


def expected_entries(row: Row, case: Case, asker: Asker, reply: Reply, ids: dict[str, str]) -> list[tuple[str, ...]]:
    """What the audit log must have of an allowed call."""
    action, _, subject = row.audited(case).partition(" ")
    if not action:
        return []
    if not subject:
        document = json.loads(reply.body or "{}")
        subject = (document.get("id") if reply.status == 201 else "") or case.objects or document["digest"]
    subject = filled(subject, {"person": asker.person, "object": case.objects})
    subject = ids.get(subject.split()[0], subject.split()[0])
    by = (asker.person, token_sha256(asker.token), reply.headers["x-request-id"], CLIENT)
    return [(action, subject, *by)]


def problem_of(outcome: Outcome, row: Row, case: Case, asker: Asker, ids: dict[str, str]) -> str | None:
    """What is wrong with the outcome of a case; None if it is what the table says."""
    reply, expected = outcome.reply, expected_verdict(row, case, asker)
    is_allowed = expected == str(case.ok)
    if (str(reply.status) if is_allowed else reply.verdict) != expected:
        return f"expected {expected}, got {reply.verdict} {reply.body[:300]}"
    if not is_allowed:
        challenge = reply.headers.get("www-authenticate", "")
        if expected_error(row, asker) not in challenge:
            return f"got {expected}, but the challenge is {challenge!r}"
        if outcome.rows_written or outcome.is_file_changed:
            return f"got {expected}, but it changed something: {outcome}"
        return None
    if case.ok < 300 and case.writes and row.method not in SAFE:
        entries = expected_entries(row, case, asker, reply, ids)
        if not outcome.rows_written or outcome.audited != entries:
            return f"got {expected}, but it wrote {outcome.rows_written} rows, and {outcome.audited}, not {entries}"
    wrongly_shown = [one.name for one in case.shows if (f'"{ids[one.name]}"' in reply.body) != is_shown(one, asker)]
    return f"got {expected}, but it shows or lacks {wrongly_shown}" if wrongly_shown else None


def name_of(row: Row, case: Case, asker: Asker) -> str:
    """The name of a cell, for a message."""
    return " ".join(filter(None, [f"{asker.name}: {row.route}", case.objects, case.query, str(case.body or "")]))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.route)
def test_a_route_does_what_the_table_says(world: tuple[World, BlockingPortal], row: Row) -> None:
    wrong_cells = [
        f"{name_of(row, case, asker)}: {problem}"
        for case in row.cases
        for asker in askers_of(row, case)
        if (problem := problem_of(try_case(*world, row, case, asker), row, case, asker, world[0].ids)) is not None
    ]
    assert not wrong_cells, "\n".join(wrong_cells)


def askers_of(row: Row, case: Case) -> list[Asker]:
    """Who tries a case. A token that is not valid is refused before a route looks at anything, so once is enough."""
    return [asker for asker in ASKERS if asker.scope is not None or case is row.cases[0]]


def routes_of(app: FastAPI) -> set[str]:
    """Every route, as the rows name them. HEAD is GET without the body, except where it is a route of its own."""
    routes = [(set(route.methods or {"ANY"}), route.path) for route in iter_route_contexts(app.routes)]
    return {
        f"{method} {path}"
        for methods, path in routes
        for method in methods
        if {"GET", method} != {"GET", "HEAD"} or len(methods) == 1
    }


def test_every_route_has_a_row_and_every_row_a_route() -> None:
    routes = routes_of(app_for(Settings(database_url="postgresql://nowhere", broker_url="memory://")))
    rows = [row.route for row in ROWS]

    assert sorted(routes - set(rows)) == [], "these routes have no row in tests/integration/api/rights/table.py"
    assert sorted(set(rows) - routes) == [], "these rows have no route"
    assert len(rows) == len(set(rows))
    assert all(row.why for row in ROWS if row.needs is None), "a row of a public route says why it is public"


def test_every_route_that_changes_something_says_what_the_audit_log_has_of_it() -> None:
    assert {row.route for row in ROWS if row.method not in SAFE} == AUDITED.keys() | UNAUDITED.keys()
