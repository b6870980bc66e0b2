"""`hora config`: which service is used, and with which token. Part of the command line of `hora.cli.app`."""

from typing import Annotated, Literal

import typer

from hora.cli.options import AsJson
from hora.cli.output import display, print_json, say

app = typer.Typer()
group = typer.Typer(help="Choose the service that the command line uses.", no_args_is_help=True)
app.add_typer(group, name="config")

Field = Literal["url", "token"]


@group.command("set")
def set_field(
    field: Annotated[Field, typer.Argument(help="url: the service's address. token: the token for it.")],
    value: Annotated[
        str | None,
        typer.Argument(metavar="[URL]", help="The address. A token is prompted for, or read from standard input."),
    ] = None,
) -> None:
    """Store an address or a token in the configuration file. `--profile` names the profile, else it is `default`."""
    from hora.cli.prompts import read_secret

    if field == "token":
        if value is not None:
            raise typer.BadParameter(
                "every process can read a token that is an argument; leave the token out, and type it at the prompt"
            )
        value = read_secret("Token")
    elif value is None:
        raise typer.BadParameter("give the address, such as https://hora.example.org")
    _change(field, value)


@group.command()
def unset(field: Annotated[Field, typer.Argument(help="What to remove. With url the token is removed too.")]) -> None:
    """Remove an address or a token from the configuration file."""
    _change(field, None)


@group.command()
def show(as_json: AsJson = False) -> None:
    """Show which service and token are used, and which file or variable names them. No token is printed."""
    from hora.config import config_file, read_profiles
    from hora.connection import find_target
    from hora.errors import HoraError
    from hora.render.tables import facts
    from hora.render.text import plain

    file = config_file()
    profiles = read_profiles(file)
    try:
        target = find_target()
    except HoraError as error:  # no service is set up: show that, and the profiles
        say(str(error))
        target = None
    if as_json:
        items = [
            {"name": name, "url": profile.url, "has_token": bool(profile.token)} for name, profile in profiles.items()
        ]
        where = (
            {} if target is None else {"url": target.url, "url_from": target.url_from, "token_from": target.token_from}
        )
        print_json({"file": str(file), "profiles": items, **where})
        return
    lines = [
        plain(f"{name}: {profile.url}{'' if profile.token else ', no token'}") for name, profile in profiles.items()
    ]
    rows = {"file": plain(file), "profiles": "\n".join([*lines, "local: the stack on this machine"])}
    if target is not None:
        token_from = plain(target.token_from or "nowhere: no token is sent")
        rows |= {"service": plain(target.url), "named by": plain(target.url_from), "token from": token_from}
    display(facts(rows))


def _change(field: Field, value: str | None) -> None:
    from hora.config import DEFAULT, config_file, read_profiles, with_field, write_profiles
    from hora.connection import profile_in_use

    file, name = config_file(), profile_in_use() or DEFAULT
    old = read_profiles(file)
    new = with_field(old, name, field, value)
    write_profiles(file, new)
    say(f"{field} of profile {name} is {'removed' if value is None else 'set'} in {file}")
    loses_token = field == "url" and name in old and old[name].token and (name not in new or not new[name].token)
    if loses_token:
        say("Its token was for the old address, and is removed too.")
