"""A field of a spec may name paths and URLs below the data roots only."""

from pathlib import Path

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

from trainer.data.location import locate
from trainer.errors import BadData


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A data root with a file in it, and a folder beside it."""
    for folder in ("root/chips", "rooted", "outside"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "root" / "chips" / "a.txt").write_text("here")
    (tmp_path / "rooted" / "a.txt").write_text("beside it")
    (tmp_path / "root" / "way_out").symlink_to("../outside")
    (tmp_path / "root" / "way_in").symlink_to("chips")
    return tmp_path / "root"


@pytest.mark.parametrize("source", ["chips", "chips/", "./chips", "way_in", "chips/../chips"])
def test_path_below_a_root_is_located(root: Path, source: str) -> None:
    def located(source: str, *roots: Path) -> Path | None:
        return locate(source, ["/nowhere", *(f"{root}/" for root in roots)], field="dataset.source").local

    assert located(source, root) == root / "chips"
    other = root.parent / "other"
    (other / "chips").mkdir(parents=True)
    assert located("chips", other, root) == other / "chips"  # the first root
    assert located(str(root / "chips"), other, root) == root / "chips"


@pytest.mark.parametrize(
    "source", ["missing", "../outside", "chips/../../outside", "way_out", "/etc/passwd", "../rooted/a.txt", "x" * 300]
)
def test_path_that_is_not_below_a_root_is_bad_data(root: Path, source: str) -> None:
    with pytest.raises(BadData, match=rf"^model.weights: '{source}' is not on this host below the data roots \({root}"):
        locate(source, [str(root), "s3://bucket"], field="model.weights")


def test_every_source_is_bad_data_without_data_roots() -> None:
    for source in ("chips", "s3://bucket/chips"):
        with pytest.raises(BadData, match="HORA_DATA_ROOTS is not set"):
            locate(source, [], field="dataset.source")


@pytest.fixture
def store() -> None:
    """Files in fsspec's memory."""
    files = fsspec.filesystem("memory")
    for path in ("/bucket/data/chips/a.txt", "/bucket/database/a.txt", "/bucket/a.txt"):
        files.pipe_file(path, b"here")


@pytest.mark.usefixtures("store")
@pytest.mark.parametrize("root", ["memory://bucket/data", "memory://bucket/data/", "memory://bucket", "memory://"])
@pytest.mark.parametrize("source", ["memory://bucket/data/chips", "memory://bucket/data/chips/"])
def test_url_below_a_root_is_located(root: str, source: str) -> None:
    location = locate(source, ["/nowhere", root], field="dataset.source")
    assert location.local is None
    assert location.filesystem.cat_file(f"{location.path.rstrip('/')}/a.txt") == b"here"


@pytest.mark.usefixtures("store")
def test_a_url_with_a_user_is_below_no_root_and_a_url_with_nothing_at_it_is_bad_data() -> None:
    for root in ("memory://", "memory://user@bucket"):
        with pytest.raises(BadData, match="is not below the data roots"):
            locate("memory://user@bucket/data/chips", [root], field="dataset.source")
    with pytest.raises(BadData, match=r"dataset.source: there is nothing at 'memory://bucket/data/cups'"):
        locate("memory://bucket/data/cups", ["memory://bucket"], field="dataset.source")


def test_file_urls_are_located_only_below_a_file_root(root: Path) -> None:
    roots = [f"file://{root}"]
    assert locate(f"file://{root}/chips", roots, field="dataset.source").local == root / "chips"
    for source in (f"file://{root}/way_out", f"file://{root.parent}/outside", "chips"):
        with pytest.raises(BadData, match="below the data roots"):
            locate(source, roots, field="dataset.source")
    with pytest.raises(BadData, match="is not below the data roots"):
        locate(f"file://{root}/chips", [str(root)], field="dataset.source")


def test_a_driver_that_is_missing_is_named() -> None:
    with pytest.raises(BadData, match=r"dataset.source: cannot open 'oss://bucket/x': .*ossfs"):
        locate("oss://bucket/x", ["oss://bucket"], field="dataset.source")
    with pytest.raises(BadData, match=r"cannot open 'nonesuch://bucket/x': Protocol not known: nonesuch"):
        locate("nonesuch://bucket/x", ["nonesuch://bucket"], field="dataset.source")


class Locked(MemoryFileSystem):
    """A store whose driver cannot read its key."""

    protocol = "locked"

    def exists(self, path: str, **options: object) -> bool:
        raise PermissionError("Permission denied: '/etc/keys of hora/id_rsa'")


def test_an_error_of_a_driver_names_no_folder_of_the_host() -> None:
    fsspec.register_implementation("locked", Locked, clobber=True)
    with pytest.raises(BadData, match=r"^dataset.source: cannot open 'locked://a/b': Permission denied: 'id_rsa'$"):
        locate("locked://a/b", ["locked://a"], field="dataset.source")
