"""Cursors are read back unchanged, and refused if they are damaged or belong to another list."""

import pytest

from jobs.db import cursors
from jobs.db.cursors import InvalidCursor


@pytest.mark.parametrize("position", [["2030-01-01T00:00:00.000001+00:00", "3k9v"], [2**62], ["é ~"]])
def test_cursor_is_read_back_only_for_its_own_list(position: list[str | int]) -> None:
    cursor = cursors.encode(position, of="list")

    assert cursor.replace("-", "").replace("_", "").isalnum()
    assert cursors.decode(cursor, of="list") == position
    with pytest.raises(InvalidCursor):
        cursors.decode(cursor, of="other list")


def test_every_damaged_cursor_is_refused() -> None:
    cursor = cursors.encode(["2030-01-01", "3k9v"], of="list")
    shortened = [cursor[:length] for length in range(len(cursor))]
    altered = [cursor[:i] + ("A" if cursor[i] != "A" else "B") + cursor[i + 1 :] for i in range(len(cursor))]

    for damaged in [*shortened, *altered, cursor + "AAAA", "é", "\x00", "====", "a b"]:
        with pytest.raises(InvalidCursor):
            cursors.decode(damaged, of="list")
