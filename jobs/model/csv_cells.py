"""Cells of CSV files that no spreadsheet takes for a formula. Pure; used by reports of studies and the command line."""

from typing import Any

# What a formula begins with; in Chinese and Japanese spreadsheets also in full width.
_FORMULA = frozenset("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


def csv_cell(value: Any) -> Any:
    """The value; text that a spreadsheet would read as a formula gets a quote in front, which makes it text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else value
