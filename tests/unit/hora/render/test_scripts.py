"""What the command line shows of scripts and of what differs between them."""

import pytest

from hora.render.scripts import code_facts, fields_table
from tests.printed import as_text, facts_of


@pytest.mark.parametrize(("files", "size"), [(1, "1 byte in 1 file"), (2, "2 bytes in 2 files")])
def test_one_file_is_no_files(files: int, size: str) -> None:
    code = {"digest": "0a" * 32, "unpacked_bytes": files, "files": [{}] * files}
    assert facts_of(code_facts(code, None))["size"] == size


def test_differing_figures_have_as_many_digits_as_they_need() -> None:
    much = 0.30000000000000004
    fields = {"mae": [much, 0.1], "loss": [much, 0.3], "gpus": [1234567, 2], "x": [1.5, None]}
    lines = [" ".join(line.split()) for line in as_text(fields_table(fields, ["0a", "0b"])).splitlines()[1:]]
    assert lines == ["mae 0.3 0.1", "loss 0.30000000000000004 0.3", "gpus 1234567 2", "x 1.5 -"]
