"""The table that `make gpu-test` prints, in Markdown for an issue. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum


class Verdict(StrEnum):
    """What a check came to."""

    OK = "ok"
    FAILED = "**failed**"
    NOT_RUN = "not run"


@dataclass(frozen=True)
class Row:
    """A check and its figures."""

    check: str
    verdict: Verdict
    figures: str


def markdown(facts: Mapping[str, str], rows: Iterable[Row]) -> str:
    """What the machine is, and a table with a line for each check."""
    lines = [f"- {name}: {_cell(value)}" for name, value in facts.items()]
    lines += ["", "| check | result | figures |", "|---|---|---|"]
    lines += [f"| {_cell(row.check)} | {row.verdict} | {_cell(row.figures)} |" for row in rows]
    return "\n".join(lines)


def _cell(text: str) -> str:
    """On one line, and without an end of the cell."""
    return " ".join(text.split()).replace("|", "\\|")
