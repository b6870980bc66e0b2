"""Everything that a user can create in number has a bound, in the table "Shares" of docs/access.md."""

import re
from pathlib import Path

from jobs.db.tables import Base

_PAGE = Path(__file__).parents[2] / "docs" / "access.md"


def bounded_tables() -> dict[str, str]:
    """The bound of each table, as the page says it."""
    section = _PAGE.read_text().partition("\n## Shares\n")[2].partition("\n## ")[0]
    bounds = {}
    for line in section.splitlines():
        if line.startswith("| ") and line.count(" |") == 3:
            _, tables, bound = (cell.strip() for cell in line.strip("| ").split("|"))
            bounds |= dict.fromkeys(re.findall(r"`(\w+)`", tables), bound)
    return bounds


def test_every_table_has_a_bound() -> None:
    bounds = bounded_tables()
    unbounded = set(Base.metadata.tables) - set(bounds)
    assert not unbounded, f"say in docs/access.md, under Shares, what bounds the rows of {sorted(unbounded)}"
    assert set(bounds) <= set(Base.metadata.tables)
    assert all(bounds.values())
