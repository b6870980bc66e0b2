"""Asking a person for a secret. Used by commands that take one: as an argument every process here could read it."""

import getpass
import sys

from hora.errors import HoraError


def read_secret(what: str) -> str:
    """A secret, typed unseen on a terminal, else the first line of standard input. Raises `HoraError` for none."""
    secret = (getpass.getpass(f"{what}: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not secret:
        raise HoraError(f"No {what.lower()} was given.")
    return secret
