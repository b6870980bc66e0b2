"""A request that fits the document never gets an internal error, nor an answer that the document does not describe."""

from pathlib import Path

import pytest

from tests.fuzz.run import fuzz_a_stack

pytestmark = pytest.mark.long("releases")


def test_fuzzing_finds_no_answer_that_breaks_the_api_document(short_folder: Path, tmp_path: Path) -> None:
    found = fuzz_a_stack(short_folder / "home", seconds=10, seed=1, report=tmp_path / "report.txt")
    assert not found, found[0]
