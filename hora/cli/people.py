"""`hora token`, `hora user`, `hora audit`, `hora login`: who may do what, and who did it. Part of the command line."""

import re
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer

from hora.cli.options import AsJson, Limit
from hora.cli.output import display, print_json, print_list, say, tell
from hora.cli.times import WHEN, moment

if TYPE_CHECKING:
    from hora.service import Service

app = typer.Typer()
tokens = typer.Typer(help="Make, list and revoke tokens.", no_args_is_help=True)
users = typer.Typer(help="List users, disable and enable them.", no_args_is_help=True)
app.add_typer(tokens, name="token")
app.add_typer(users, name="user")

_UNITS_S = {"s": 1, "m": 60, "h": 3600, "d": 24 * 3600}
_COMPARED = 500  # entries of the audit log whose actions are compared with a misspelt one
_LIFE = re.compile(r"([0-9]{1,9})([smhd])")


def _life_s(text: str) -> int:
    found = _LIFE.fullmatch(text)
    if found is None:
        raise typer.BadParameter("write it like 90s, 30m, 12h or 30d")
    return int(found[1]) * _UNITS_S[found[2]]


UserName = Annotated[str, typer.Argument(metavar="NAME", help="The user.")]
Life = Annotated[
    int | None,
    typer.Option(
        "--expires",
        metavar="TIME",
        parser=_life_s,
        help="How long it is valid, such as 12h or 30d. Without it: until it is revoked.",
    ),
]


@tokens.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A name that says what it is for.")],
    scope: Annotated[str, typer.Option(help="read, submit, code or admin. Each includes those before it.")] = "submit",
    user: Annotated[
        str | None,
        typer.Option(help="The user of the token. A new name makes a new user. Without it: you. Only for admins."),
    ] = None,
    expires: Life = None,
    rate_limit: Annotated[float | None, typer.Option(metavar="N", help="The most requests a second.")] = None,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it. It cannot be shown again."""
    from hora.connection import connect

    with connect() as client:
        token = client.create_token(name, scope=scope, user=user, expires_in_s=expires, rate_limit_per_s=rate_limit)
    if as_json:
        print_json(token)
        return
    tell(token["token"])
    until = f"until {token['expires_at']}" if token.get("expires_at") else "until it is revoked"
    say(f"token {token['id']} of {token['user']}, scope {token['scope']}, {until}; it cannot be shown again")


@tokens.command("ls")
def list_tokens(
    user: Annotated[
        str | None, typer.Option(help="The tokens of this user. Without it: yours. Only for admins.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Show expired and revoked tokens too.")] = False,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List tokens and sessions, newest first. A token's text cannot be shown again."""
    from hora.connection import connect
    from hora.render.people import tokens_table

    with connect() as client:
        found = list(islice(client.tokens(user=user, live=None if every else True, page_size=min(limit, 500)), limit))
    print_list(found, tokens_table, nothing="No tokens. Make one: `hora token create NAME`.", as_json=as_json)


@tokens.command()
def revoke(
    token_id: Annotated[str, typer.Argument(metavar="TOKEN", help="The id of the token.")], as_json: AsJson = False
) -> None:
    """Revoke a token and its sessions."""
    from hora.connection import connect

    with connect() as client:
        client.revoke_token(token_id)
    print_json({"revoked": token_id}) if as_json else tell(f"{token_id} is revoked")


@users.command("ls")
def list_users(limit: Limit = 50, as_json: AsJson = False) -> None:
    """List users by name."""
    from hora.connection import connect
    from hora.render.people import users_table

    with connect() as client:
        found = list(islice(client.users(page_size=min(limit, 500)), limit))
    print_json({"items": found}) if as_json else display(users_table(found))


@users.command()
def disable(name: UserName, as_json: AsJson = False) -> None:
    """Disable a user: none of their tokens is accepted. Running jobs continue, queued jobs wait."""
    _set_disabled(name, True, as_json)


@users.command()
def enable(name: UserName, as_json: AsJson = False) -> None:
    """Enable a user: their tokens are accepted again."""
    _set_disabled(name, False, as_json)


def _set_disabled(name: str, disabled: bool, as_json: bool) -> None:
    from hora.connection import connect

    with connect() as client:
        user = client.set_user_disabled(name, disabled)
    print_json(user) if as_json else tell(f"{user['name']} is {'disabled' if disabled else 'enabled'}")


@app.command()
def audit(
    actor: Annotated[str | None, typer.Option(metavar="USER", help="Only what this user did.")] = None,
    action: Annotated[str | None, typer.Option(help="Only this action, such as job.cancelled.")] = None,
    subject: Annotated[
        str | None, typer.Option(metavar="ID", help="Only what was done to this job, study, token, ...")
    ] = None,
    since: Annotated[str | None, typer.Option(metavar="WHEN", help=f"Only since then: {WHEN}.")] = None,
    until: Annotated[str | None, typer.Option(metavar="WHEN", help="Only before then, written like --since.")] = None,
    limit: Limit = 50,
    as_json: AsJson = False,
) -> None:
    """List what people did, newest first. For admins."""
    from hora.connection import connect
    from hora.render.people import audit_table

    span = {"since": moment("--since", since), "until": moment("--until", until)}
    with connect() as client:
        entries = client.audit(actor=actor, action=action, subject=subject, **span, page_size=min(limit, 500))
        found = list(islice(entries, limit))
        proposal = "" if found or action is None else _similar_action(client, action)
    print_list(found, audit_table, nothing=f"No entries of the audit log match{proposal or '.'}", as_json=as_json)


def _similar_action(client: "Service", action: str) -> str:
    """The end of a sentence that proposes one of the newest actions of the log."""
    from jobs.suggestions import meant

    return meant(action, {entry["action"] for entry in islice(client.audit(page_size=_COMPARED), _COMPARED)})


@app.command()
def login(as_json: AsJson = False) -> None:
    """Print a link that opens the page as you. It works once, within ten minutes."""
    from hora.connection import connect

    with connect() as client:
        link = client.login_link()
    print_json(link) if as_json else tell(link["url"])
