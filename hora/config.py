"""The configuration file: a profile for each service that a person uses. Only the command line reads and writes it.

    [profiles.default]
    url = "https://hora.example.org"
    token = "hora_..."

It is `$XDG_CONFIG_HOME/hora/config.toml`, or `~/.config/hora/config.toml`. A file with a token is used only if no other
user can read it.
"""

import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from hora.errors import HoraError
from hora.sign_in import require_address, require_token

DEFAULT = "default"
LOCAL = "local"  # the stack on this machine: always there, and never in the file
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]*")


@dataclass(frozen=True)
class Profile:
    """A service, and the token that is meant for this service only."""

    url: str | None = None
    token: str | None = None


Profiles = Mapping[str, Profile]


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """Where the profiles are."""
    base = environ.get("XDG_CONFIG_HOME")
    return (Path(base) if base else Path("~/.config").expanduser()) / "hora" / "config.toml"


def read_profiles(path: Path) -> Profiles:
    """The profiles in the file; none where there is no file. Raises `HoraError`."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            document = tomllib.load(file)
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise HoraError(f"{path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise HoraError(f"{path} is not TOML: {error}.") from error
    profiles = _profiles_of(document, path)
    if status.st_mode & 0o077 and any(profile.token for profile in profiles.values()):
        raise HoraError(f"Others can read {path}, which has a token. Run `chmod 600 {path}`, and make a new token.")
    return profiles


def _profiles_of(document: Mapping[str, object], path: Path) -> Profiles:
    tables = document.get("profiles", {})
    unknown = [name for name in document if name != "profiles"]
    if unknown or not isinstance(tables, dict):
        raise HoraError(f"{path} may have only tables [profiles.NAME], not {', '.join(unknown) or 'profiles'}.")
    profiles = {}
    for name, fields in tables.items():
        if not isinstance(fields, dict) or not all(isinstance(value, str) for value in fields.values()):
            raise HoraError(f"{path}: profile {name} is not a table of texts.")
        if wrong := fields.keys() - {"url", "token"}:
            raise HoraError(f"{path}: profile {name} has {', '.join(sorted(wrong))}. Its fields are url and token.")
        profiles[name] = Profile(**fields)
    return profiles


def with_field(profiles: Profiles, name: str, field: str, value: str | None) -> Profiles:
    """`profiles` with one field of one profile set or removed. A new address removes the token of the old one.

    Raises `HoraError`.
    """
    if not _NAME.fullmatch(name) or name == LOCAL:
        raise HoraError(f"{name} is not a valid name for a profile. Use letters, digits, - and _; {LOCAL} is reserved.")
    before = profiles.get(name, Profile())
    if field == "url":
        if value is not None:
            require_address(value)
        url = None if value is None else value.rstrip("/")
        after = Profile(url, before.token if url == before.url else None)
    else:
        if value is not None:
            require_token(value)
        if value is not None and before.url is None:
            raise HoraError("Set the url first: a token is meant for one service.")
        after = replace(before, token=value)
    changed = {**profiles, name: after}
    return {one: profile for one, profile in changed.items() if profile != Profile()}


def write_profiles(path: Path, profiles: Profiles) -> None:
    """Replace the file, readable by its owner alone. Raises `HoraError`."""
    from hora.home import write_private

    lines = []
    for name, profile in profiles.items():
        lines.append(f"[profiles.{name}]")
        # JSON and TOML write the characters of addresses and tokens in the same way.
        fields = {"url": profile.url, "token": profile.token}
        lines += [f"{field} = {json.dumps(value)}" for field, value in fields.items() if value is not None]
        lines.append("")
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(path, "\n".join(lines))
    except OSError as error:
        raise HoraError(f"{path} cannot be written: {error.strerror}.") from error
