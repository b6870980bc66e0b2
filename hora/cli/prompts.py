"""Prompts for secrets. A secret is never an argument, because every process of this machine can read arguments."""

import getpass
import sys

from hora.errors import HoraError


def read_secret(name: str) -> str:
    """Read a secret: typed unseen on a terminal, else the first line of standard input. Raises `HoraError` if empty."""
    secret = (getpass.getpass(f"{name}: ") if sys.stdin.isatty() else sys.stdin.readline()).strip()
    if not secret:
        raise HoraError(f"No {name.lower()} was given.")
    return secret
