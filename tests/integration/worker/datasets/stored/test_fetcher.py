"""Datasets made from uploads in the store: validated on one host, fetched by others that need them, and removed."""

import shutil
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from threading import Event
from typing import Any

import pytest
from sqlalchemy import func, select, update

from jobs.copies.store import Store, StoreAway
from jobs.data import host_datasets, pieces_in_store, uploads, validation
from jobs.db.tables import DatasetVersion, HostDataset, Job, Upload, UploadPiece
from tests.archives import chips
from tests.full_disks import fill_up, small_disk
from tests.integration.jobs.writing import change, write
from tests.integration.worker.datasets.dataset_rows import row_of
from tests.integration.worker.datasets.stored.stored_site import ARCHIVE, PIECE_BYTES, Site, fetch_until, files_in
from tests.waiting import until
from worker.datasets import uploaded
from worker.datasets.fetcher import DatasetFetcher
from worker.datasets.folders import DatasetFiles, OldDatasets
from worker.datasets.validator import Validator


def test_a_validator_makes_a_version_from_pieces_in_the_store(site: Site) -> None:
    version_id = site.validated()
    assert files_in(site.ha.datasets) == {f"chips/1/{name}": content for name, content in chips(4).items()}
    assert site.is_at("ha")
    upload_id = row_of(site.sessions, version_id).upload_id
    assert [file.key.split("/")[:2] for file in site.store.files("uploads")] == [["uploads", upload_id]] * (
        -(-len(ARCHIVE) // PIECE_BYTES)
    )


@pytest.mark.parametrize("move", [DatasetFiles.place, DatasetFiles.put])
def test_files_come_to_their_place_in_one_step(move: Callable[..., None], tmp_path: Path) -> None:
    content = tmp_path / "content"
    content.mkdir()
    folder = content.stat().st_ino
    move(DatasetFiles(tmp_path), content, "chips", 1)
    assert (tmp_path / "chips" / "1").stat().st_ino == folder  # it was renamed, not copied


def test_an_upload_that_the_store_has_damaged_cannot_be_used_again(site: Site) -> None:
    version_id = site.upload()
    site.store.remove([site.store.files("uploads")[0].key])
    assert Validator(site.sessions, site.ha).validate_one()
    row = row_of(site.sessions, version_id)
    assert (row.status, row.error) == ("invalid", "the store has lost the bytes at 0: send it again")
    with site.sessions() as session:
        assert session.scalars(select(Upload.removed_at)).one() is not None


def test_without_hosts_that_have_the_store_the_files_are_not_found(site: Site) -> None:
    version_id = site.upload()
    for settings in (site.ha, site.hb):
        Validator(site.sessions, settings.model_copy(update={"store": None})).validate_one()
    with site.sessions.begin() as session:
        assert validation.refuse_unseen(session, host_timeout_s=60) == ["chips@1"]
    row = row_of(site.sessions, version_id)
    assert (row.status, row.error) == ("invalid", "its files are in the store, and no host has HORA_STORE (ha, hb)")


def test_another_host_has_the_same_files_once_an_attempt_needs_them(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    fetcher.once()
    assert site.at("hb") is None
    site.attempt("hb", "ha")
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    assert files_in(site.hb.datasets) == files_in(site.ha.datasets)
    fetcher.once()
    assert not fetcher._running


def test_the_lookout_sees_attempts_of_the_host_that_need_an_upload(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    (watched,) = fetcher.watched()

    def is_seen() -> bool:
        with site.sessions() as session:
            return bool(session.scalar(select(watched.exist)))

    elsewhere = site.attempt("ha")
    assert not is_seen()
    lease = site.attempt("ha", "hb")
    assert is_seen()
    site.end(lease)
    assert not is_seen()
    site.end(elsewhere)


def test_a_damaged_piece_ends_the_attempt_and_a_later_one_tries_again(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    key = site.store.files("uploads")[1].key
    good = site.store.read(key)
    site.store.write(key, bytes(PIECE_BYTES))
    first = site.attempt("hb")

    def has_failed() -> bool:
        row = site.at("hb")
        return row is not None and row.failed_for == "bad_data"

    fetch_until(fetcher, has_failed, "a failure")
    fetcher.once()
    assert not fetcher._running
    row = site.at("hb")
    assert row is not None
    assert row.error == f"the store has other bytes at {PIECE_BYTES} than those that were sent"
    assert files_in(site.hb.datasets) == {}
    site.end(first)
    site.store.write(key, good)
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")


def test_what_has_come_is_not_brought_again_after_a_moment_without_the_store(
    site: Site, fetcher: DatasetFetcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.validated()
    keys = [file.key for file in site.store.files("uploads")]
    brought: Counter[str] = Counter()
    download = Store.download

    def fails_twice(self: Store, key: str, target: Path, **options: Any) -> None:
        brought[key] += 1
        if key == keys[3] and brought[key] < 3:
            raise StoreAway("it gives no answer")
        download(self, key, target, **options)

    monkeypatch.setattr(Store, "download", fails_twice)
    monkeypatch.setattr(pieces_in_store, "_AT_ONCE", 1)
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    assert [brought[key] for key in keys[:4]] == [1, 1, 1, 3]


def test_a_store_that_is_emptied_for_a_moment_has_lost_nothing(
    site: Site, fetcher: DatasetFetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.validated()
    keys = [file.key for file in site.store.files("uploads")]
    was_away = Event()
    download = Store.download

    def is_unmounted(self: Store, key: str, target: Path, **options: Any) -> None:
        if key != keys[2] or was_away.is_set():
            return download(self, key, target, **options)
        (tmp_path / "store").rename(tmp_path / "away")
        try:
            return download(self, key, target, **options)
        finally:
            (tmp_path / "away").rename(tmp_path / "store")
            was_away.set()

    monkeypatch.setattr(Store, "download", is_unmounted)
    site.attempt("hb")
    fetch_until(fetcher, was_away.is_set, "the loss of the store")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")


def test_who_waits_for_a_turn_gets_on(site: Site, fetcher: DatasetFetcher, monkeypatch: pytest.MonkeyPatch) -> None:
    version_id = site.validated()
    site.attempt("hb")
    is_over = Event()
    occupied = [fetcher._threads.submit(is_over.wait, 120) for _ in range(2)]
    fetcher.once()

    def says_so() -> bool:
        change(site.sessions, update(HostDataset).where(HostDataset.host == "hb").values(moved_at=func.to_timestamp(0)))
        fetcher.once()
        row = site.at("hb")
        return row is not None and row.moved_at.year > 2000

    until(says_so, what="that it gets on")
    is_over.set()
    assert all(future.result() for future in occupied)
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    write(site.sessions, host_datasets.moves, "hb", version_id)
    assert site.is_at("hb")


def test_a_store_that_is_away_is_waited_for(
    site: Site, fetcher: DatasetFetcher, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploaded, "_PATIENCE_S", 0.1)
    site.validated()
    site.attempt("hb")
    (tmp_path / "store").rename(tmp_path / "away")

    def waits() -> bool:
        row = site.at("hb")
        return row is not None and row.error is not None and "is gone" in row.error

    fetch_until(fetcher, waits, "a sentence")
    row = site.at("hb")
    assert row is not None
    assert (row.ready_at, row.failed_for) == (None, None)
    shutil.rmtree(tmp_path / "store", ignore_errors=True)
    (tmp_path / "away").rename(tmp_path / "store")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")


def test_a_host_without_space_says_so(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.attempt("hb")
    with small_disk(site.hb.datasets) as disk:
        fill_up(disk)
        fetch_until(fetcher, lambda: getattr(site.at("hb"), "failed_for", None) == "no_space", "a failure")


def test_hosts_may_share_the_folder(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.hb.datasets.symlink_to(site.ha.datasets)
    site.attempt("hb")
    before = (site.ha.datasets / "chips" / "1").stat().st_ino
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    assert (site.ha.datasets / "chips" / "1").stat().st_ino == before


def test_the_next_worker_notices_a_lost_disk_and_removes_what_the_last_one_left(
    site: Site, fetcher: DatasetFetcher
) -> None:
    site.validated()
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    shutil.rmtree(site.hb.datasets)
    (site.hb.datasets / ".fetching" / "hb" / "7").mkdir(parents=True)
    of_another = site.hb.datasets / ".fetching" / "ha" / "7"  # hosts may share the folder
    of_another.mkdir(parents=True)
    again = DatasetFetcher(site.sessions, site.hb)
    fetch_until(again, lambda: site.is_at("hb") and files_in(site.hb.datasets), "the dataset again")
    assert list(site.hb.datasets.glob(".fetching/*/*")) == [of_another]


def test_a_version_that_no_job_needed_for_long_goes_and_comes_back(site: Site, fetcher: DatasetFetcher) -> None:
    version_id = site.validated()
    lease = site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    old = OldDatasets(site.sessions, site.hb)
    with site.sessions.begin() as session:
        long_ago = func.now() - timedelta(days=site.hb.keep_files_days + 1)
        session.execute(update(DatasetVersion).values(validated_at=long_ago))
    old.remove_some()
    assert site.is_at("hb")
    site.end(lease)
    old.remove_some()
    assert site.is_at("hb"), "it was used a moment ago"
    change(site.sessions, update(Job).values(ended_at=long_ago))
    old.remove_some()
    assert site.at("hb") is None
    assert files_in(site.hb.datasets) == {}
    assert files_in(site.ha.datasets)
    OldDatasets(site.sessions, site.ha).remove_some()
    assert files_in(site.ha.datasets) == {}, "each host removes its own files"
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset again")
    assert row_of(site.sessions, version_id).status == "ready"


def test_pieces_go_when_nothing_is_made_of_them_any_more(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.store.write("uploads/0of0another0stack/1", b"x")
    site.store.write("uploads/other", b"x")
    lease = site.attempt("hb")
    site.remove_old()
    change(site.sessions, update(DatasetVersion).values(deleted_at=func.now()))
    site.remove_old()
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset of a job that goes on")
    site.end(lease)
    site.remove_old()
    assert [file.key for file in site.store.files("uploads")] == ["uploads/0of0another0stack/1", "uploads/other"]
    with site.sessions() as session:
        assert session.scalars(select(UploadPiece.start)).all() == []


def test_a_piece_that_comes_after_its_upload_was_removed_goes_too(site: Site) -> None:
    version_id = site.upload()
    with site.sessions.begin() as session:
        upload_id = session.get_one(DatasetVersion, version_id).upload_id
        session.execute(update(DatasetVersion).values(deleted_at=func.now()))
        uploads.mark_removed(session, str(upload_id))
    site.remove_old()
    late = f"uploads/{upload_id}/late"
    site.store.write(late, b"x")
    site.remove_old()
    assert site.store.files("uploads") == []
