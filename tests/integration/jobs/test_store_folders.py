"""Folders of the store are listed by name only, and removed with all that is in them."""

import errno
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from uuid import uuid4

import fsspec
import pytest

from jobs.copies.store import Store, StoreAway


@pytest.fixture(params=["file", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    """A store in a folder, and one whose driver knows no folders."""
    if request.param == "file":
        yield Store(f"file://{tmp_path}/team", {})
    else:
        place = f"memory://{uuid4().hex}"
        yield Store(f"{place}/team", {})
        with suppress(FileNotFoundError):
            fsspec.filesystem("memory").rm(place, recursive=True)


def test_only_the_folders_right_below_a_prefix_are_named(store: Store) -> None:
    store.write("x", b"")
    assert store.folders("jobs") == []
    for key in ("jobs/b/manifests/1.json", "jobs/a/artifacts/1/x", "jobs/a/y", "jobs/README", "jobsx/c/z"):
        store.write(key, b"x")
    assert store.folders("jobs") == ["a", "b"]


def test_a_folder_goes_with_many_files_and_its_neighbours_stay(store: Store) -> None:
    for number in range(50):
        store.write(f"jobs/a/{number % 3}/{number}", b"x")
    store.write("jobs/ab/x", b"x")
    store.remove_below("jobs/a")
    store.remove_below("jobs/a")
    assert [file.key for file in store.files("jobs")] == ["jobs/ab/x"]


def test_a_server_that_lists_an_empty_folder_as_a_file_of_its_own_name_has_no_file_there(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    above = store._path("jobs/a")
    found = {above: {"size": 0}, f"{above}/x": {"size": 1}}
    monkeypatch.setattr(store, "_call", lambda *_, **__: found)
    assert [file.key for file in store.files("jobs/a")] == ["jobs/a/x"]


def test_a_folder_that_cannot_be_removed_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"file://{tmp_path}/team", {})
    store.write("jobs/a/x", b"x")

    def refuse(path: str, onerror: object) -> None:
        error = OSError(errno.EROFS, "Read-only file system", path)
        onerror(None, path, (OSError, error, None))  # type: ignore[operator]

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(StoreAway, match="Read-only file system"):
        store.remove_below("jobs/a")


def test_an_error_ends_a_removal(monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(f"memory://{uuid4().hex}/team", {})
    for number in range(100):
        store.write(f"jobs/a/{number:02d}", b"x")
    tries = []

    def refuse(self: Store, keys: list[str]) -> None:
        tries.extend(keys)
        raise StoreAway("access denied")

    monkeypatch.setattr(Store, "remove", refuse)
    with pytest.raises(StoreAway):
        store.remove_below("jobs/a")
    assert len(tries) <= 16
