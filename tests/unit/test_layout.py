"""Rules for the source tree that no linter checks."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("api", "bench", "hora", "jobs", "migrations", "tests", "trainer", "worker")
SAYS_NOTHING = {"common", "helpers", "misc", "util", "utils"}


@pytest.mark.parametrize("room", ROOMS)
def test_no_module_has_a_name_that_says_nothing(room: str) -> None:
    assert [path for path in (ROOT / room).rglob("*") if path.stem in SAYS_NOTHING] == []
