"""Which service the command line and `hora.Client` talk to, and with which token.

The first of these that is there: the named profile (`hora --profile`); the environment (`HORA_URL`, `HORA_TOKEN`,
`HORA_HOME`); the profile `default` of the file (`hora.config`); the stack on this machine. A token goes only to the
service that it is meant for: that of the file to its own address, that of the stack on this machine to that stack.
"""

import os
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from hora.config import DEFAULT, LOCAL, Profile, Profiles, config_file, read_profiles
from hora.errors import HoraError
from jobs.runtime.default_home import default_home

if TYPE_CHECKING:
    from hora.service import Service

_profile: ContextVar[str | None] = ContextVar("profile", default=None)


@dataclass(frozen=True)
class Target:
    """A service and its token, and in words where each was found."""

    url: str
    token: str | None = field(repr=False)
    url_from: str
    token_from: str | None


def connect(*, timeout_s: float = 30.0) -> "Service":
    """A client of the service that this command uses. Raises `HoraError`."""
    from hora.service import Service

    target = find_target()
    return Service(target.url, target.token, timeout_s=timeout_s)


def use_profile(name: str | None) -> None:
    """Make `connect` use this profile from now on. None: it uses the environment and the file."""
    _profile.set(name)


def profile_in_use() -> str | None:
    """The profile that was named, if any."""
    return _profile.get()


def find_target(environ: Mapping[str, str] | None = None) -> Target:
    """The service that this command uses. Raises `HoraError`."""
    environ = os.environ if environ is None else environ
    file, name = config_file(environ), _profile.get()
    if name == LOCAL:
        return _of_this_machine(environ, environ.get("HORA_TOKEN"))
    if name is not None:
        profiles = read_profiles(file)
        if profiles.get(name, Profile()).url is None:
            from jobs.suggestions import meant

            known = sorted([LOCAL, *profiles])
            raise HoraError(
                f"There is no profile {name} with a url; there is {', '.join(known)}{meant(name, known) or '.'}"
            )
        return _of_profile(name, profiles, file)
    if environ.get("HORA_URL"):
        return _of_environment(environ["HORA_URL"].rstrip("/"), environ, file)
    if environ.get("HORA_TOKEN") or environ.get("HORA_HOME"):  # they name a stack here, so the file is not read
        return _of_this_machine(environ, environ.get("HORA_TOKEN"))
    profiles = read_profiles(file)
    if profiles.get(DEFAULT, Profile()).url is not None:
        return _of_profile(DEFAULT, profiles, file)
    return _of_this_machine(environ, None)


def home_path(environ: Mapping[str, str] | None = None) -> Path:
    """The home of the stack on this machine."""
    home = (os.environ if environ is None else environ).get("HORA_HOME")
    return Path(home).expanduser() if home else default_home()


def _of_environment(url: str, environ: Mapping[str, str], file: Path) -> Target:
    """The service at `HORA_URL`, with a token that is known to be for it."""
    if token := environ.get("HORA_TOKEN"):
        return Target(url, token, "HORA_URL", "HORA_TOKEN")
    home = home_path(environ)
    if url == _line_of(home / "url"):
        return Target(url, _line_of(home / "token"), "HORA_URL", str(home / "token"))
    for name, profile in read_profiles(file).items():
        if profile.url == url and profile.token:
            return Target(url, profile.token, "HORA_URL", f"profile {name} in {file}")
    return Target(url, None, "HORA_URL", None)


def _of_profile(name: str, profiles: Profiles, file: Path) -> Target:
    profile, told = profiles[name], f"profile {name} in {file}"
    return Target(profile.url or "", profile.token, told, told if profile.token else None)


def _of_this_machine(environ: Mapping[str, str], token: str | None) -> Target:
    home = home_path(environ)
    url = _line_of(home / "url")
    if url is None:
        raise HoraError(f"No stack runs in {home}. Start one with `hora up -d`, or set HORA_URL and HORA_TOKEN.")
    if token:
        return Target(url, token, str(home / "url"), "HORA_TOKEN")
    return Target(url, _line_of(home / "token"), str(home / "url"), str(home / "token"))


def _line_of(path: Path) -> str | None:
    try:
        return path.read_text().strip().rstrip("/") or None
    except FileNotFoundError:
        return None
    except OSError as error:
        raise HoraError(f"{path} cannot be read ({error.strerror}); set HORA_URL and HORA_TOKEN.") from error
