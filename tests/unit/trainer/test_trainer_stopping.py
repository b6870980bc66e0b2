"""The lease file of a rank. The stop watch itself is tested in processes of its own, in `tests/integration`."""

from pathlib import Path

import pytest

from trainer.stopping import LeaseFile


@pytest.mark.parametrize("content", [None, "", "soon"], ids=["missing", "empty", "no number"])
def test_unreadable_lease_file_counts_as_expired(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "lease").write_text(content)
    assert LeaseFile(tmp_path / "lease").is_over()
    assert not LeaseFile(None).is_over()  # without a file there is no lease
