"""What a check of `hora doctor` found, and the table that shows it."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rich.table import Table
from rich.text import Text

from hora.render.tables import table_of
from hora.render.text import plain


@dataclass(frozen=True)
class Finding:
    """What one check of `hora doctor` found. `advice` is what to do about it."""

    check: str
    level: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


def findings_table(findings: Iterable[Finding]) -> Table:
    """One line a check."""
    table = table_of("CHECK", "", "FOUND", "WHAT TO DO")
    for one in findings:
        style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[one.level]
        table.add_row(one.check, Text(one.level, style=style), plain(one.found), plain(one.advice))
    return table
