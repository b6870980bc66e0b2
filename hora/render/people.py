"""What the command line shows of people: tokens, users and the audit log, from the API's JSON. Pure."""

import json
from collections.abc import Iterable
from datetime import datetime

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.tables import table_of
from hora.render.text import ago, plain


def tokens_table(tokens: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a token."""
    table = table_of("TOKEN", "USER", "SCOPE", "NAME…", "KIND?", "CREATED?", "USED", "EXPIRES", "")
    for token in tokens:
        revoked = token.get("revoked_at")
        table.add_row(
            plain(token["id"]),
            plain(token["user"]),
            plain(token["scope"]),
            plain(token["name"]),
            plain(token["kind"]),
            ago(token.get("created_at"), now),
            ago(token.get("last_used_at"), now),
            plain(token.get("expires_at") or "never"),
            Text("revoked" if revoked else "", style="red"),
        )
    return table


def users_table(users: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a user."""
    table = table_of("USER", "SCOPE", "TOKENS>", "SINCE", "USED", "")
    for user in users:
        table.add_row(
            plain(user["name"]),
            plain(user.get("scope") or "-"),
            str(user["tokens"]),
            ago(user.get("created_at"), now),
            ago(user.get("last_used_at"), now),
            Text("disabled" if user.get("disabled_at") else "", style="red"),
        )
    return table


def audit_table(entries: Iterable[Json]) -> Table:
    """One line for each thing that somebody did."""
    table = table_of("AT", "ACTOR", "ACTION", "SUBJECT", "FROM?", "TOKEN?", "DATA…")
    for entry in entries:
        cells = (entry.get(name) or "-" for name in ("at", "actor", "action", "subject", "address", "token_id"))
        data = entry.get("data")
        table.add_row(*map(plain, cells), plain(json.dumps(data)) if data else "")
    return table
