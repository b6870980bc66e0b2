"""HTML for notebooks: small tables, and lines of curves. Pure. All text from elsewhere is escaped.

Used by the models and lists of `hora.client` that a notebook shows.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Enum
from html import escape
from math import isfinite

from pydantic import BaseModel

MOST_ROWS = 20  # of a table
MORE = "<p>and more</p>"  # below a table that leaves some out
_MOST_COLUMNS = 8
_MOST_TEXT = 80  # characters of a cell
_WIDTH, _HEIGHT = 160, 32  # of a line, in pixels


class Html(str):
    """Text that is HTML already."""

    __slots__ = ()


def cell(value: object) -> Html:
    """A value as a person reads it."""
    match value:
        case Html():
            return value
        case None:
            return Html("")
        case bool() | Enum():
            return Html(escape(str(value)))
        case float():
            return Html(f"{value:.4g}")
        case datetime():
            return Html(f"{value:%Y-%m-%d %H:%M:%S}")
        case _:
            text = str(value)
            return Html(escape(text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"))


def link(url: str, text: str) -> Html:
    """A link that a notebook opens beside itself."""
    return Html(f'<a href="{escape(url)}" target="_blank" rel="noopener">{cell(text)}</a>')


def rows(lines: Sequence[Mapping[str, object]]) -> Html:
    """A table with a column for each name in the lines."""
    names = list(dict.fromkeys(name for line in lines for name in line))
    head = "".join(f"<th>{cell(name)}</th>" for name in names)
    body = "".join(f"<tr>{''.join(f'<td>{cell(line.get(name))}</td>' for name in names)}</tr>" for line in lines)
    return Html(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")


def facts(values: Mapping[str, object]) -> Html:
    """A table with a line for each value. None is left out."""
    lines = (
        f"<tr><th>{cell(name)}</th><td>{cell(value)}</td></tr>" for name, value in values.items() if value is not None
    )
    return Html(f"<table><tbody>{''.join(lines)}</tbody></table>")


def table_of(items: Sequence[BaseModel], *, has_more: bool = False) -> Html:
    """A table of models: those cells that a model chooses itself (`_cells`), else its first plain fields."""
    if not items:
        return Html("<p>nothing</p>")
    return Html(rows([_cells(item) for item in items]) + (MORE if has_more else ""))


def _cells(item: BaseModel) -> Mapping[str, object]:
    if hasattr(item, "_cells"):
        cells: Mapping[str, object] = item._cells()
        return cells
    plain = [name for name, value in item if value is None or isinstance(value, str | int | float | datetime)]
    return {name: getattr(item, name) for name in plain[:_MOST_COLUMNS]}


def sparkline(values: Sequence[float | None]) -> Html:
    """A curve as a picture without axes, in the colour of the text. Nothing for fewer than two points."""
    points = [(place, value) for place, value in enumerate(values) if value is not None and isfinite(value)]
    if len(points) < 2:
        return Html("")
    low, high = min(value for _, value in points), max(value for _, value in points)
    across, up = (_WIDTH - 4) / (len(values) - 1), (_HEIGHT - 4) / ((high - low) or 1)
    path = " ".join(f"{2 + place * across:.1f},{_HEIGHT - 2 - (value - low) * up:.1f}" for place, value in points)
    said = f"from {points[0][1]:.4g} to {points[-1][1]:.4g}"
    return Html(
        f'<svg width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{said}">'
        f'<polyline points="{path}" fill="none" stroke="currentColor" stroke-width="1.5"/></svg>'
    )
