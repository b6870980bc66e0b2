"""Tables in terminals of any width: no word is broken, and nothing is wider than the terminal."""

import pytest

from hora.render.tables import FittingTable, table_of
from tests.printed import as_text

LONG_NAME = "digits-lenet5-2x64-with-a-long-name"
ROWS = [
    ("3k9v0t2m7x1q", LONG_NAME, "running", "0.9712", "12,345", "2nd: needs 1 slot; none is free"),
    ("7m2k0q9d4v1s", "a", "queued", "-", "-", "-"),
]


def jobs() -> FittingTable:
    table = table_of("ID", "NAME…", "STATUS", "VAL ACCURACY>", "SAMPLES/S>?", "IN QUEUE…")
    for row in ROWS:
        table.add_row(*row)
    return table


@pytest.mark.parametrize("width", range(28, 140))
def test_no_word_is_broken(width: int) -> None:
    """Unless it alone is wider than the terminal."""
    lines = as_text(jobs(), width).splitlines()
    assert all(len(line) <= width for line in lines)
    whole = {word for row in ROWS for cell in row for word in cell.split()}
    whole |= {"ID", "NAME", "STATUS", "VAL", "ACCURACY", "SAMPLES/S", "IN", "QUEUE"}
    shown = " ".join(lines).split()
    assert {"3k9v0t2m7x1q", "7m2k0q9d4v1s", "running", "queued", "0.9712"} <= set(shown)
    for word in shown:
        is_cut = word.endswith("…") and any(each.startswith(word[:-1]) for each in whole)
        assert word in whole or is_cut or (word in LONG_NAME and width < 15 + len(LONG_NAME))


def test_with_less_room_texts_are_cut_then_a_column_is_left_out_and_then_rows_are_lists() -> None:
    whole, cut, less, lists = (as_text(jobs(), width).splitlines() for width in (200, 90, 72, 40))
    assert [line.split() for line in whole] == [
        ["ID", "NAME", "STATUS", "VAL", "ACCURACY", "SAMPLES/S", "IN", "QUEUE"],
        *(" ".join(row).split() for row in ROWS),
    ]
    assert "SAMPLES/S" in cut[-3]
    assert any("…" in line for line in cut)
    assert "SAMPLES/S" not in " ".join(less)
    assert lists[0].split() == ["ID", "3k9v0t2m7x1q"]
    assert "" in lists
