"""Rules of the tree that no linter knows."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "bench", "hora", "jobs", "migrations", "tests", "trainer", "worker")
SAYS_NOTHING = {"common", "helpers", "misc", "util", "utils"}


@pytest.mark.parametrize("room", ROOMS)
def test_modules_are_named_for_what_is_in_them(room: str) -> None:
    assert [path for path in (ROOT / room).rglob("*") if path.stem in SAYS_NOTHING] == []
