"""Tokens, users, projects, the audit log and the login link, and that no secret stays anywhere."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import httpx2 as httpx
import psutil
import pytest

from hora.service import NotAuthorized, Service
from hora.stack.control import Stack
from tests.commands import hora


@pytest.fixture
def created(stack: Stack) -> Iterator[dict[str, str]]:
    """A token that the command line made, and its id."""
    result = hora(stack.home, "token", "create", "nightly", "--user", "alice", "--expires", "12h", "--rate-limit", "50")
    assert result.returncode == 0, result.stderr
    (token_id,) = re.findall(r"^token ([0-9a-f]+) of alice, scope submit, until 2", result.stderr)
    yield {"id": token_id, "text": result.stdout.strip()}
    hora(stack.home, "token", "revoke", token_id)


def test_a_token_is_printed_once_and_refused_while_its_user_is_disabled_and_when_it_is_revoked(
    stack: Stack, created: dict[str, str]
) -> None:
    assert re.fullmatch(r"hora_[A-Za-z0-9_-]{43}", created["text"])
    listed = hora(stack.home, "token", "ls", "--user", "alice")
    assert created["id"] in listed.stdout
    assert created["text"] not in listed.stdout
    assert hora(stack.home, "token", "create", "odd", "--expires", "soon").returncode == 2
    with Service(stack.url, created["text"]) as alice:
        me = alice.me()
        assert (me["user"], me["scope"], me["rate_limit_per_s"]) == ("alice", "submit", 50)
        assert hora(stack.home, "user", "disable", "alice").stdout == "alice is disabled\n"
        with pytest.raises(NotAuthorized):
            alice.me()
        assert re.search(r"alice .*disabled", hora(stack.home, "user", "ls").stdout)
        assert hora(stack.home, "user", "enable", "alice").stdout == "alice is enabled\n"
        assert alice.me()["user"] == "alice"
        assert hora(stack.home, "token", "revoke", created["id"]).stdout == f"{created['id']} is revoked\n"
        with pytest.raises(NotAuthorized):
            alice.me()
    assert created["id"] not in hora(stack.home, "token", "ls", "--user", "alice").stdout
    assert "revoked" in hora(stack.home, "token", "ls", "--user", "alice", "--all").stdout
    entries = json.loads(hora(stack.home, "audit", "--subject", "alice", "--limit", "2", "--json").stdout)["items"]
    assert [entry["action"] for entry in entries] == ["user.enabled", "user.disabled"]
    misspelt = hora(stack.home, "audit", "--action", "user.disable")
    assert "match; did you mean user.disabled?" in misspelt.stdout + misspelt.stderr
    table = hora(stack.home, "audit", "--action", "user.disabled").stdout
    assert re.search(r"admin +user\.disabled +alice +127\.0\.0\.1", table)


def test_a_login_link_opens_the_page_and_no_secret_is_logged_or_in_a_command(
    stack: Stack, created: dict[str, str]
) -> None:
    """None is in a row of the database or in an answer either: `tests/integration/api/test_errors.py`."""
    printed = hora(stack.home, "login", HORA_URL=stack.url, HORA_TOKEN=created["text"])
    address = printed.stdout.strip()
    code = address.partition("?code=")[2]
    assert address.startswith(f"{stack.url}/login?code=hora_")
    with httpx.Client(base_url=stack.url) as browser:
        assert browser.get(address).status_code == 303
        session, csrf = browser.cookies["hora_session"], browser.cookies["hora_csrf"]
        assert browser.get("/v1/me").json()["user"] == "alice"
    secrets = {stack.token, created["text"], code, session, csrf}

    visible_text = stack.log_of("api")
    assert "path=/login " in visible_text or '"/login"' in visible_text
    visible_text += "".join(Path(file).read_text() for file in Path(stack.home, "logs").iterdir())
    visible_text += hora(stack.home, "audit").stdout
    visible_text += " ".join(" ".join(process.info["cmdline"] or ()) for process in psutil.process_iter(["cmdline"]))
    assert "alice" in visible_text
    for secret in secrets:
        assert len(secret) > 30
        assert secret not in visible_text


def test_a_project_is_created_changed_and_archived(stack: Stack, client: Service) -> None:
    limits = ("--max-slots", "2", "--share", "2.5", "--max-priority", "60", "--idle", "below=2.5,for_s=600,action=stop")
    created = json.loads(hora(stack.home, "project", "create", "vision", *limits, "--closed", "--json").stdout)
    assert (created["max_slots"], created["share"], created["max_priority"]) == (2, 2.5, 60)
    assert (created["is_open"], created["idle"]) == (False, {"below": 2.5, "for_s": 600, "action": "stop"})
    assert "only admins go above" not in hora(stack.home, "project", "set", "vision", "--max-priority", "none").stdout
    hora(stack.home, "project", "set", "vision", "--idle", "action=pause")
    assert client.project("vision")["idle"] == {"below": 2.5, "for_s": 600, "action": "pause"}
    hora(stack.home, "project", "set", "vision", "--idle", "none")
    assert client.project("vision")["idle"] is None
    assert hora(stack.home, "project", "add", "vision", "admin").stdout == "admin is a member of vision\n"
    assert client.project("vision")["members"] == ["admin"]
    unknown = hora(stack.home, "project", "add", "vision", "ada")
    hint = "A user exists as soon as they have a token: `hora token create NAME --user ada`."
    assert (unknown.returncode, unknown.stderr) == (102, f"There is no user ada. {hint}\n")
    assert hora(stack.home, "project", "remove", "vision", "admin").stdout == "admin is no longer a member of vision\n"
    listed = hora(stack.home, "project", "ls").stdout
    for text in ("0 of 2", "members only", "share 2.5"):
        assert text in " ".join(listed.split())
    assert hora(stack.home, "project", "archive", "vision").stdout == "vision is archived\n"
    assert client.project("vision")["archived_at"] is not None
    assert hora(stack.home, "project", "archive", "vision", "--undo").returncode == 0
    assert client.project("vision")["archived_at"] is None
