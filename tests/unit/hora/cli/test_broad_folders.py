"""A folder that is hardly a dataset is registered only if a person says so."""

from pathlib import Path

import pytest
import typer

from hora.cli import broad_folders
from hora.cli.broad_folders import confirm_breadth, kind_of, size_of


def test_the_home_and_folders_of_the_system_are_known_and_others_may_be_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "link").symlink_to("/etc")
    of_system = ("/", "/etc", "/usr", "/usr/share", "/home", "/var/lib", "/proc/1", "/etc/ssl", f"{tmp_path}/link")
    assert {kind_of(Path(folder)) for folder in of_system} == {"a folder of the system"}
    assert kind_of(tmp_path) == "your home folder"
    assert kind_of(tmp_path / "chips") is None
    assert kind_of(Path("/usr/share/dataset-fashion-mnist")) is None


def test_only_a_large_folder_needs_a_yes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "1.png").write_bytes(b"123")
    (tmp_path / "a" / "loop").symlink_to(tmp_path)
    confirm_breadth(tmp_path, may_ask=False)
    confirm_breadth(tmp_path / "not there", may_ask=False)
    assert size_of(tmp_path)[0] >= 3
    monkeypatch.setattr(broad_folders, "_LARGE_BYTES", 2)
    with pytest.raises(typer.BadParameter, match=r"is a very large folder: .* in 1 file; if you mean it, add --yes"):
        confirm_breadth(tmp_path, may_ask=True)  # standard input of tests is no terminal
    for number in range(5):
        (tmp_path / str(number)).touch()
    monkeypatch.setattr(broad_folders, "_MOST_FILES", 3)  # then the counting ends
    with pytest.raises(typer.BadParameter, match=r"more than 0.0 MB in 3 files"):
        confirm_breadth(tmp_path, may_ask=False)
