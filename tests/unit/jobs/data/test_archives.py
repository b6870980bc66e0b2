"""Unpacking untrusted archives: which files are written, and what is refused."""

import io
import os
import tarfile
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from jobs.data.archives import Limits, Refused, parts_of, unpack
from tests.archives import (
    chips,
    gzipped,
    member,
    tar_of,
    zip_encrypted,
    zip_link,
    zip_of,
    zip_of_overlapping,
    zip_with_false_size,
)
from worker.datasets import unpacking

LIMITS = Limits(max_bytes=100 * 2**20, max_entries=1000, max_ratio=200)
FILES = {"chips/cracked/1.png": b"one", "chips/whole/2.png": b"two"}


def unpacked(archive: bytes, folder: Path, *, filename: str = "a.zip", limits: Limits = LIMITS) -> dict[str, bytes]:
    """The bytes of each file that is unpacked from an archive, by path."""
    path = folder / "archive"
    path.write_bytes(archive)
    into = folder / "into"
    unpack(path, filename, into, limits)
    return {str(file.relative_to(into)): file.read_bytes() for file in into.rglob("*") if file.is_file()}


@pytest.mark.parametrize("kind", ["zip", "tar", "tar.gz", "tar.zst"])
def test_every_file_of_an_archive_is_unpacked(kind: str, tmp_path: Path) -> None:
    tar = tar_of(FILES)
    archive = {"zip": zip_of(FILES), "tar": tar, "tar.gz": gzipped(tar)}.get(kind)
    if archive is None:
        with pa.OSFile(str(tmp_path / "a.zst"), "wb") as file, pa.CompressedOutputStream(file, "zstd") as packed:
            packed.write(tar)
        archive = (tmp_path / "a.zst").read_bytes()
    assert unpacked(archive, tmp_path) == FILES


@pytest.mark.parametrize("name", ["./a/b.png", "a/./b.png", "ordner/größe.png", "ф/1.png", "-rf/$(reboot).png"])
def test_harmless_name_is_kept_except_for_dot_parts(name: str, tmp_path: Path) -> None:
    plain = "/".join(part for part in name.split("/") if part != ".")
    assert unpacked(zip_of({name: b"x"}), tmp_path) == {plain: b"x"}


WRONG_NAMES = [
    "/etc/cron.d/x", "../x", "a/../../x", "a/..", "C:/x", "..\\x", "a\\b", "a//b", "a\nb", "a\x00b", "a\x1bb", "a/\x7f",
    "x" * 256, "/".join(["d"] * 17), "a/" * 15 + "x" * 1000, "/".join(["d" * 250] * 5),
]  # fmt: skip


@pytest.mark.parametrize("name", WRONG_NAMES, ids=lambda name: ascii(name[:12]))
def test_unsafe_name_is_refused(name: str) -> None:
    with pytest.raises(Refused, match="the name"):
        parts_of(name)


@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
@pytest.mark.parametrize("name", ["/tmp/hora-slip", "../slip", "chips/../../slip"])
def test_nothing_is_written_outside_the_target_folder(make: object, name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"is absolute|leads outside"):
        unpacked(make({"a.png": b"fine", name: b"not"}), tmp_path)  # type: ignore[operator]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["archive", "into"]
    assert not Path("/tmp/hora-slip").exists()


SPARSE = tarfile.TarInfo("huge")
SPARSE.type = tarfile.GNUTYPE_SPARSE
HOLES = tarfile.TarInfo("holes")  # without the map of them
HOLES.pax_headers = {"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}


@pytest.mark.parametrize(
    ("archive", "why"),
    [
        (tar_of({"a.png": b"x"}, member("link", tarfile.SYMTYPE, "/etc/passwd")), "link, a device"),
        (tar_of({"a.png": b"x"}, member("link", tarfile.SYMTYPE, "a.png")), "link, a device"),
        (tar_of({"a.png": b"x"}, member("link", tarfile.LNKTYPE, "a.png")), "link, a device"),
        (tar_of({"a.png": b"x"}, member("pipe", tarfile.FIFOTYPE)), "link, a device"),
        (tar_of({"a.png": b"x"}, member("disk", tarfile.BLKTYPE)), "link, a device"),
        (tar_of({"a.png": b"x"}, member("tty", tarfile.CHRTYPE)), "link, a device"),
        (tar_of({"a.png": b"x"}, SPARSE), "sparse file|damaged"),
        (tar_of({"a.png": b"x"}, HOLES), "sparse file that cannot be read"),
        (zip_link("evil", "/etc"), "link"),
        (zip_encrypted(FILES), "encrypted"),
    ],
    ids=[
        "symlink out",
        "symlink",
        "hard link",
        "pipe",
        "block device",
        "character device",
        "sparse",
        "holes",
        "zip",
        "secret",
    ],
)
def test_links_pipes_devices_and_encrypted_files_are_refused(archive: bytes, why: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=why):
        unpacked(archive, tmp_path)
    assert not any(path.is_symlink() for path in (tmp_path / "into").rglob("*"))


@pytest.mark.parametrize(
    "names",
    [("a/1.png", "a/1.png"), ("a/1.png", "a/1.PNG"), ("Cats/1.png", "cats/2.png"), ("a", "a/b"), ("a/b", "a"),
     ("\u00e9.png", "e\u0301.png")],
    ids=["equal", "case", "case of a folder", "file, then folder", "folder, then file", "two ways to write é"],
)  # fmt: skip
def test_colliding_names_are_refused(names: tuple[str, str], tmp_path: Path) -> None:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as file:
        for name in names:
            file.addfile(tarfile.TarInfo(name))
    with pytest.raises(Refused, match="occurs twice"):
        unpacked(out.getvalue(), tmp_path)


@pytest.mark.parametrize("name", ["a_.png", "ä_.png"], ids=["plain", "flagged as UTF-8"])
def test_zip_name_with_a_nul_is_refused_rather_than_cut(name: str, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="control characters"):
        unpacked(zip_of({name: b"x"}).replace(b"_.png", b"\0.png"), tmp_path)


def test_name_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    latin = zip_of({"gr_sse.png": b"x"}).replace(b"gr_sse", b"gr\xf6sse")
    with pytest.raises(Refused, match="UTF-8"):
        unpacked(latin, tmp_path)
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", encoding="latin-1", format=tarfile.USTAR_FORMAT) as file:
        file.addfile(tarfile.TarInfo("größe.png"))
    (tmp_path / "tar").mkdir()
    with pytest.raises(Refused, match="UTF-8"):
        unpacked(out.getvalue(), tmp_path / "tar")


def test_zip_name_is_read_as_utf_8_without_the_utf_8_flag(tmp_path: Path) -> None:
    plain = zip_of({"gr__sse.png": b"x"}).replace(b"gr__sse", "grösse".encode())
    assert unpacked(plain, tmp_path) == {"grösse.png": b"x"}


BOMB = bytes(80 * 2**20)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_compression_bomb_is_stopped_while_it_is_unpacked(kind: str, tmp_path: Path) -> None:
    archive = zip_of({"a.bin": BOMB}) if kind == "zip" else gzipped(tar_of({"a.bin": BOMB}))
    with pytest.raises(Refused, match="bytes come out"):
        unpacked(archive, tmp_path)
    assert sum(file.stat().st_size for file in (tmp_path / "into").rglob("*")) <= 64 * 2**20


def test_the_size_limit_counts_all_files_one_data_file_and_the_headers_of_a_tar(tmp_path: Path) -> None:
    limits = Limits(max_bytes=1000, max_entries=10, max_ratio=200)
    folders = [tmp_path / name for name in ("files", "file", "false", "tar", "many")]
    for folder in folders:
        folder.mkdir()
    with pytest.raises(Refused, match="more than 1000 bytes"):
        unpacked(zip_of({f"{number}.bin": bytes(400) for number in range(3)}), folders[0], limits=limits)
    with pytest.raises(Refused, match="more than 1000 bytes"):
        unpacked(bytes(1001), folders[1], filename="a.npz", limits=limits)
    with pytest.raises(Refused, match="cannot be read"):
        unpacked(zip_with_false_size(bytes(50_000), stated_bytes=10), folders[2], limits=limits)
    header = tarfile.TarInfo.create_pax_global_header({"comment": "x" * 30_000})  # belongs to no file
    limits = Limits(max_bytes=100_000, max_entries=10, max_ratio=200)
    assert unpacked(header + tar_of(FILES), folders[3], limits=limits) == FILES
    with pytest.raises(Refused, match="more than 100000 bytes"):
        unpacked(gzipped(header * 100 + tar_of(FILES)), folders[4], limits=limits)


@pytest.mark.parametrize("make", [zip_of, tar_of], ids=["zip", "tar"])
def test_the_number_of_files_is_limited(make: object, tmp_path: Path) -> None:
    with pytest.raises(Refused, match="more than 1000 files"):
        unpacked(make({f"{number}.txt": b"" for number in range(1001)}), tmp_path)  # type: ignore[operator]
    if make is zip_of:  # a zip lists its files, so it is refused before any is written
        assert not list((tmp_path / "into").iterdir())


def test_nothing_is_unpacked_into_an_existing_folder(tmp_path: Path) -> None:
    (tmp_path / "into").mkdir()
    for filename in ("a.zip", "a.npz"):
        with pytest.raises(FileExistsError):
            unpacked(zip_of(FILES), tmp_path, filename=filename)
    assert not list((tmp_path / "into").iterdir())


LONG = tarfile.TarInfo("././@LongLink")
LONG.type, LONG.size = tarfile.GNUTYPE_LONGNAME, 2**33
TWO = tar_of({"a.png": bytes(100), "b.png": bytes(100)})
NO_FILE = "there is no file in the archive"
BAD = {
    "no bytes": (b"", NO_FILE),
    "zip without a file": (zip_of({}), NO_FILE),
    "zip of folders": (zip_of({"a/": b"", "a/b/": b""}), NO_FILE),
    "tar without a file": (tar_of({}), NO_FILE),
    "tar of folders": (tar_of({}, member("a", tarfile.DIRTYPE)), NO_FILE),
    "tar.gz without a file": (gzipped(tar_of({})), NO_FILE),
    "header that would fill the memory": (LONG.tobuf(tarfile.GNU_FORMAT) + bytes(2**16), "is too long"),
    "files that share bytes": (zip_of_overlapping(bytes(1000), 50), "shares its bytes"),
    "text": (b"not an archive at all", "."),
    "zeros": (bytes(2000), "."),
    "beginning of a zip": (b"PK\x03\x04", "."),
    "beginning of a gzip": (b"\x1f\x8b\x08\x00", "."),
    **{f"tar cut after {keep} bytes": (TWO[:keep], ".") for keep in (700, 1024, 1536)},
}


@pytest.mark.parametrize("case", BAD)
def test_a_damaged_or_empty_archive_is_refused(case: str, tmp_path: Path) -> None:
    archive, why = BAD[case]
    with pytest.raises(Refused, match=why):
        unpacked(archive, tmp_path)


def test_npz_file_is_stored_whole_under_a_fixed_name(tmp_path: Path) -> None:
    arrays = zip_of({"x_train.npy": b"1", "y_train.npy": b"2"})
    assert unpacked(arrays, tmp_path, filename="../../Evil.NPZ") == {"data.npz": arrays}


def answer_to(folder: Path, archive: bytes, **changes: object) -> dict[str, object]:
    (folder / "archive").write_bytes(archive)
    order = {
        "archive": str(folder / "archive"), "into": str(folder / "into"), "filename": "a.zip", "sha256": None,
        "size_bytes": len(archive), "limits": {"max_bytes": 10**9, "max_entries": 1000, "max_ratio": 200},
    }  # fmt: skip
    return unpacking.answer(order | changes)


@pytest.mark.parametrize(
    ("files", "top"),
    [
        (chips(1), "."),
        (chips(1, top="chips/"), "chips"),
        (chips(1, top="a/b/"), "a/b"),
        (chips(1, top="chips/") | {"__MACOSX/x": b"", ".DS_Store": b""}, "chips"),
        (chips(1) | {"README": b""}, "."),
    ],
    ids=["classes", "one folder", "folder in a folder", "with what a Mac adds", "beside a file"],
)
def test_data_starts_below_outer_folders_that_hold_everything(
    files: dict[str, bytes], top: str, tmp_path: Path
) -> None:
    assert answer_to(tmp_path, zip_of(files)) == {"top": top, "file": None}


def test_archive_with_another_size_or_sha_256_is_refused(tmp_path: Path) -> None:
    assert "SHA-256" in str(answer_to(tmp_path, zip_of(FILES), sha256="0" * 64)["refused"])
    assert "bytes on this host" in str(answer_to(tmp_path, zip_of(FILES), size_bytes=1)["refused"])


@pytest.mark.parametrize("floor", [{"least_free_bytes": 10**18}, {"least_free_files": 10**18}])
def test_an_archive_that_would_fill_the_disk_is_no_fault_of_the_archive(tmp_path: Path, floor: dict[str, int]) -> None:
    with pytest.raises(OSError, match="No space left on device"):
        answer_to(tmp_path, zip_of(FILES), limits=asdict(LIMITS) | floor)


@pytest.mark.parametrize("empty", [{"file": b""}, {"folder/": b""}])
def test_empty_files_and_folders_count_as_files_of_the_disk(tmp_path: Path, empty: dict[str, bytes]) -> None:
    if os.statvfs(tmp_path).f_files == 0:
        pytest.skip("this file system does not count files")
    with pytest.raises(OSError, match="No space left on device"):
        answer_to(tmp_path, zip_of(empty), limits=asdict(LIMITS) | {"least_free_files": 10**18})
