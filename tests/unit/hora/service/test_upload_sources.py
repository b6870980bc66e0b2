"""A folder is uploaded as a .tar that is never written to disk: every range is made when it is read. On real files."""

import io
import os
import tarfile
from pathlib import Path

import pytest

from hora.errors import HoraError
from hora.service.upload_sources import FileSource, FolderSource, upload_source

FILES = {"b/2.png": b"x" * 700, "a/1.png": b"", "a/" + "ä" * 90 + ".png": b"y" * 512, "z.txt": b"last"}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, content in FILES.items():
        path = tmp_path / "chips" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    for hidden in (".git/x", "_cache/y", ".DS_Store"):
        path = tmp_path / "chips" / hidden
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(b"hidden")
    return tmp_path / "chips"


def test_folder_is_read_as_a_tar_of_its_visible_files(folder: Path) -> None:
    (folder / "loop").symlink_to(folder)
    (folder / "gone.png").symlink_to("nowhere")
    source = FolderSource(folder)
    whole = source.read(0, source.size_bytes)
    assert len(whole) == source.size_bytes
    with tarfile.open(fileobj=io.BytesIO(whole)) as archive:
        found = {member.name: archive.extractfile(member).read() for member in archive}  # type: ignore[union-attr]
    assert found == FILES


@pytest.mark.parametrize("size", [1, 7, 512, 513, 5000])
def test_pieces_of_any_size_make_up_the_whole(folder: Path, size: int) -> None:
    source = FolderSource(folder)
    pieces = [source.read(offset, size) for offset in range(0, source.size_bytes, size)]
    assert b"".join(pieces) == source.read(0, source.size_bytes)


def test_upload_name_changes_only_when_the_folder_changes(folder: Path) -> None:
    before = FolderSource(folder).filename
    assert FolderSource(folder).filename == before
    os.utime(folder / "z.txt", (1, 1))
    assert FolderSource(folder).filename != before


def test_a_file_that_became_shorter_is_an_error(folder: Path) -> None:
    source = FolderSource(folder)
    (folder / "b/2.png").write_bytes(b"short")
    with pytest.raises(HoraError, match="shorter"):
        source.read(0, source.size_bytes)


def test_a_file_is_sent_as_it_is(folder: Path) -> None:
    source = upload_source(folder / "b/2.png")
    assert isinstance(source, FileSource)
    assert (source.size_bytes, source.read(690, 100), source.filename.endswith("-2.png")) == (700, b"x" * 10, True)


@pytest.mark.timeout(60)
def test_an_empty_folder_and_a_named_pipe_are_refused(tmp_path: Path) -> None:
    with pytest.raises(HoraError, match="no files"):
        upload_source(tmp_path)
    os.mkfifo(tmp_path / "chips.zip")
    with pytest.raises(HoraError, match=r"chips\.zip is neither a file nor a folder"):
        upload_source(tmp_path / "chips.zip")
