"""Everything that a user can create in number has a bound, in the table "Shares" of docs/access.md."""

from jobs.db.tables import Base
from tests.unit.test_docs import code, rows


def test_every_table_has_a_bound() -> None:
    bounds = {table: bound for _, tables, bound in rows("access.md", "Shares") for table in code(tables)}
    assert bounds.keys() == Base.metadata.tables.keys(), "say in docs/access.md, under Shares, what bounds the rows"
    assert all(bounds.values())
