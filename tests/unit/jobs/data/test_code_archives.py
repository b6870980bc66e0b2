"""Archives of code: what is in them, what is refused, what unpacking leaves, and how two of them differ."""

import hashlib
import io
import stat
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.data.code_archives import MOST_FILES, BadArchive, CodeFile, inspect, unpack
from jobs.data.code_texts import differences
from tests.archives import gzipped, member, tar_of, zip_link, zip_of

FILES = {"train.py": b"print('hi')\n", "lib/größe.py": b"x = 1\n"}
ARCHIVES = {"zip": zip_of(FILES), "tar": tar_of(FILES), "tar.gz": gzipped(tar_of(FILES))}


def written(folder: Path, content: bytes) -> Path:
    """A file with this content."""
    path = folder / "archive"
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("kind", ARCHIVES)
def test_files_are_listed_by_path_with_their_hash_and_unpacked(kind: str, tmp_path: Path) -> None:
    archive, folder = written(tmp_path, ARCHIVES[kind]), tmp_path / "code"
    assert inspect(archive) == [
        CodeFile(path, len(FILES[path]), hashlib.sha256(FILES[path]).hexdigest()) for path in sorted(FILES)
    ]
    unpack(archive, folder)
    assert {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()} == FILES


def test_programs_stay_executable_and_lose_every_special_mode(tmp_path: Path) -> None:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as file:
        for name, mode in (("run.sh", 0o6755), ("data.txt", 0o1666)):
            info = tarfile.TarInfo(name)
            info.mode = mode
            file.addfile(info, io.BytesIO(b""))
    unpack(written(tmp_path, archive.getvalue()), tmp_path / "code")
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "code").iterdir()}
    assert modes == {"run.sh": 0o700, "data.txt": 0o600}


# The guards against hostile archives are those of `jobs.data.archives`. Here is one case of each kind.
HOSTILE = {
    "link out": (tar_of({"a.py": b""}, member("out", tarfile.SYMTYPE, "/etc/passwd")), "belongs to a link"),
    "link in a zip": (zip_link("out", "/etc/passwd"), "belongs to a link"),
    "name that leads outside": (tar_of({"../a.py": b""}), "leads outside the archive"),
    "name twice": (tar_of({"a.py": b"", "./a.py": b""}), "occurs twice"),
    "bomb": (gzipped(tar_of({"zeros": bytes(80_000_000)})), "bytes come out of it"),
    "too many files": (tar_of({f"{number}.py": b"" for number in range(MOST_FILES + 1)}), "more than 10000 files"),
    "nothing": (b"", "no file in the archive"),
    "no archive": (b"print('train')\n", "not a known kind of archive: .tar.gz, .tar or .zip"),
    "archive for data alone": (b"\x28\xb5\x2f\xfd" + bytes(100), "not a known kind of archive"),
    "cut off": (ARCHIVES["tar.gz"][:-20], "cannot be read"),
}


@pytest.mark.parametrize("read", [inspect, lambda path: unpack(path, path.parent / "code")], ids=["inspect", "unpack"])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_archive_is_refused_with_a_reason(case: str, read: Callable[[Path], object], tmp_path: Path) -> None:
    archive, reason = HOSTILE[case]
    with pytest.raises(BadArchive, match=reason):
        read(written(tmp_path, archive))
    outside = {path.name for path in tmp_path.iterdir()} - {"archive", "code"}
    assert outside == set()


def test_names_that_reorder_text_or_take_megabytes_and_more_bytes_than_the_caller_allows_are_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(BadArchive, match="unprintable characters"):
        inspect(written(tmp_path, zip_of({"a\u202eyp.txt": b""})))
    folder = "/".join(["d" * 200] * 4)
    with pytest.raises(BadArchive, match="names take more than a megabyte"):
        inspect(written(tmp_path, tar_of({f"{folder}/{number}": b"" for number in range(1500)})))
    with pytest.raises(BadArchive, match="more than 1000 bytes come out"):
        inspect(written(tmp_path, tar_of({"a.py": bytes(2000)})), most_bytes=1000)


def test_unpacking_never_writes_into_a_folder_that_exists(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    with pytest.raises(FileExistsError):
        unpack(written(tmp_path, ARCHIVES["zip"]), tmp_path / "code")


HUNKS = {
    ("a\nb\n", "a\nc\n"): "@@ -1,2 +1,2 @@\n a\n-b\n+c",
    ("", "a\n"): "@@ -0,0 +1 @@\n+a",
    ("a\r\n", "a\n"): "@@ -1 +1 @@\n-a\r\n+a",
    ("a\nb", "a\nb\n"): "@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n+b",
    ("a\x0cb\u2028c\n", "a\nb\nc\n"): "@@ -1 +1,3 @@\n-a\x0cb\u2028c\n+a\n+b\n+c",
}


@pytest.mark.parametrize(("before", "after"), HUNKS)
def test_every_difference_of_two_texts_is_shown(before: str, after: str) -> None:
    assert differences({"x": before}, {"x": after}, ["x"]) == {"x": HUNKS[before, after]}


def test_a_long_file_hides_no_short_one() -> None:
    before, after = {"data": "a" * 600_000, "main": "a"}, {"data": "b" * 600_000, "main": "b"}
    hunks = differences(before, after, ["data", "main"])
    assert hunks["data"] is None
    assert hunks["main"] is not None


def test_a_file_that_is_no_text_has_no_hunks() -> None:
    assert differences({"x": None, "y": "a"}, {"x": "a", "y": None}, ["x", "y"]) == {"x": None, "y": None}
