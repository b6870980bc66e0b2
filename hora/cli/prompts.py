"""Prompts for secrets. As an argument, every process of this machine could read a secret."""

import getpass
import sys

from hora.errors import HoraError


def read_secret(name: str) -> str:
    """A secret, typed unseen on a terminal, else the first line of standard input. Raises `HoraError` for none."""
    secret = (getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not secret:
        raise HoraError(f"No {name.lower()} was given.")
    return secret
