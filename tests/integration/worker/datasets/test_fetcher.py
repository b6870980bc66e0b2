"""Datasets that are made from uploads in the store: validated on one host, fetched by others that need them."""

import hashlib
import os
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs.copies.marks import require_mark
from jobs.copies.store import Store, store_of
from jobs.data import host_datasets, upload_pieces, uploads, validation, versions
from jobs.data.resolving import Registry
from jobs.data.upload_pieces import Piece
from jobs.db.engine import Sessions
from jobs.db.tables import (
    Attempt,
    DatasetVersion,
    Host,
    HostDataset,
    Job,
    JobEvent,
    MarkedStore,
    Slot,
    Upload,
    UploadPiece,
)
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, get_job
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason, EventKind
from jobs.runtime.files import path_of
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.placement import Placement, Share
from jobs.views.data import NewDataset, NewUpload
from tests.archives import chips, zip_of
from tests.full_disks import fill_up, small_disk
from tests.integration.jobs import job_rows
from tests.integration.worker.datasets.dataset_rows import row_of
from tests.waiting import until
from worker.attempt.supervisor_task import SupervisorTask, task_of
from worker.copies.old import OldCopies
from worker.copies.start import Start
from worker.datasets import fetcher as fetcher_module
from worker.datasets.fetcher import DatasetFetcher
from worker.datasets.folders import OldDatasets
from worker.datasets.validator import Validator

ARCHIVE = zip_of(chips(4, top="my chips/"))
PIECE_BYTES = 500


@dataclass(frozen=True)
class Site:
    """Two hosts, `ha` and `hb`, each with a disk of its own, and a store."""

    sessions: Sessions
    store: Store
    ha: Settings
    hb: Settings

    def upload(self, content: bytes = ARCHIVE, filename: str = "chips.zip") -> int:
        """Send an upload to the store and register it as chips. Returns the id of the version."""
        with self.sessions.begin() as session:
            new = NewUpload(filename=filename, size_bytes=len(content))
            upload = uploads.start(session, new, owner="ada", most_open=50, in_store=True)
        for start in range(0, len(content), PIECE_BYTES):
            self._send(upload.id, start, content[start : start + PIECE_BYTES])
        with self.sessions.begin() as session:
            return versions.register(session, NewDataset(name="chips", upload=upload.id), owner="ada").id

    def _send(self, upload_id: str, start: int, content: bytes) -> None:
        descriptor = os.memfd_create("piece")
        os.write(descriptor, content)
        piece = Piece(upload_id, start, len(content), hashlib.sha256(content).hexdigest())
        self.store.upload(piece.key, path_of(descriptor))
        os.close(descriptor)
        with self.sessions.begin() as session:
            upload_pieces.advance(session, piece)

    def validated(self) -> int:
        """A version that host ha validated. Returns its id."""
        version_id = self.upload()
        assert Validator(self.sessions, self.ha).validate_one()
        assert row_of(self.sessions, version_id).status == "ready"
        return version_id

    def attempt(self, *hosts: str) -> Lease:
        """A job on the dataset, placed on these hosts."""
        spec = Registry(self.sessions).resolve(spec_from({"dataset": "chips", "gpus": len(hosts)})).spec
        with self.sessions.begin() as session:
            job = write_job(session, spec=spec, plan=resolve_plan(spec, None), owner="me")
            shares = tuple(Share(host, (_free_slot(session, host),)) for host in hosts)
            return placing.place(session, [Placement(job.id, shares)], lease_s=60)[0]

    def remove_old(self) -> None:
        """Remove from the store what is not needed any more, as happens once an hour."""
        with self.sessions.begin() as session:
            session.execute(update(MarkedStore).values(tidied_at=None))
        OldCopies(self.sessions, self.store, self.ha).once()

    def end(self, lease: Lease) -> None:
        """End an attempt, and with it its job."""
        with self.sessions.begin() as session:
            leases.end(session, lease, EndReason.BAD_DATA)
            leases.release(session, lease.attempt_id)

    def at(self, host: str) -> HostDataset | None:
        """What the rows say of the dataset on a host."""
        with self.sessions() as session:
            return session.scalar(select(HostDataset).where(HostDataset.host == host))

    def is_at(self, host: str) -> bool:
        """Whether the rows say that a host has the dataset."""
        row = self.at(host)
        return row is not None and row.ready_at is not None


def _free_slot(session: Session, host: str) -> int:
    free = select(func.min(Slot.index)).where(Slot.host == host, Slot.attempt_id.is_(None))
    return session.scalars(free).one()


@pytest.fixture
def site(tmp_path: Path, sessions: Sessions, database: str, broker: str) -> Site:
    def host(name: str) -> Settings:
        (tmp_path / name).mkdir()
        job_rows.a_host(sessions, name, slots=4, peers="net")
        with sessions.begin() as session:
            session.execute(update(Host).where(Host.name == name).values(info={"peers": "net", "interface": "eth0"}))
        return Settings(
            home=tmp_path / name, database_url=database, broker_url=broker, host_name=name, device="cpu",
            store=f"file://{tmp_path}/store", inspection_timeout_s=60,
        )  # fmt: skip

    ha, hb = host("ha"), host("hb")
    store = store_of(ha)
    assert store is not None
    require_mark(sessions, store)
    return Site(sessions, store, ha, hb)


@pytest.fixture
def fetcher(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[DatasetFetcher]:
    """The fetcher of host hb."""
    monkeypatch.setattr(fetcher_module, "_REST_S", 0.05)
    monkeypatch.setattr(fetcher_module, "_LOOK_S", 0.05)
    fetcher = DatasetFetcher(site.sessions, site.hb)
    yield fetcher
    fetcher.stop()


def fetch_until(fetcher: DatasetFetcher, condition: Any, what: str) -> None:
    def passes() -> bool:
        fetcher.once()
        return bool(condition())

    until(passes, what=what)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_validator_makes_a_version_from_pieces_in_the_store(site: Site) -> None:
    version_id = site.validated()
    assert files_in(site.ha.datasets) == {f"chips/1/{name}": content for name, content in chips(4).items()}
    assert site.is_at("ha")
    upload_id = row_of(site.sessions, version_id).upload_id
    assert [file.key.split("/")[:2] for file in site.store.files("uploads")] == [["uploads", upload_id]] * (
        -(-len(ARCHIVE) // PIECE_BYTES)
    )


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


def test_a_store_that_is_away_is_waited_for(site: Site, fetcher: DatasetFetcher, tmp_path: Path) -> None:
    site.validated()
    site.attempt("hb")
    (tmp_path / "store").rename(tmp_path / "away")

    def waits() -> bool:
        row = site.at("hb")
        return row is not None and row.error is not None and "is gone" in row.error

    fetch_until(fetcher, waits, "a sentence")
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


def test_a_disk_that_was_lost_is_noticed_by_the_next_worker(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    shutil.rmtree(site.hb.datasets)
    again = DatasetFetcher(site.sessions, site.hb)
    fetch_until(again, lambda: site.is_at("hb") and files_in(site.hb.datasets), "the dataset again")


def test_what_a_worker_left_that_died_is_removed(site: Site, fetcher: DatasetFetcher) -> None:
    (site.hb.datasets / ".fetching" / "hb" / "7").mkdir(parents=True)
    of_another = site.hb.datasets / ".fetching" / "ha" / "7"  # hosts may share the folder
    of_another.mkdir(parents=True)
    fetcher.once()
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
    with site.sessions.begin() as session:
        session.execute(update(Job).values(ended_at=long_ago))
    old.remove_some()
    assert site.at("hb") is None
    assert files_in(site.hb.datasets) == {}
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset again")
    assert row_of(site.sessions, version_id).status == "ready"


def test_pieces_go_when_nothing_is_made_of_them_any_more(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.store.write("uploads/0of0another0stack/1", b"x")
    site.store.write("uploads/other", b"x")
    lease = site.attempt("hb")
    site.remove_old()
    with site.sessions.begin() as session:
        session.execute(update(DatasetVersion).values(deleted_at=func.now()))
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


def task_on(site: Site, settings: Settings, lease: Lease) -> SupervisorTask:
    with site.sessions.begin() as session:
        assert leases.claim(session, lease.attempt_id, lease_s=60) is not None
    return task_of(site.sessions, settings, lease, claimed_at=time.monotonic())


def test_a_supervisor_waits_for_the_data_of_all_hosts(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    lease = site.attempt("ha", "hb")
    task = task_on(site, site.ha, lease)
    assert (task.waits_for_data, task.argv) == (True, [])
    fetcher.start()
    start = Start(task, site.sessions, site.ha, [])
    assert start.run()
    assert "-np" in start.task.argv
    assert not start.task.waits_for_data
    with site.sessions() as session:
        said = session.scalar(select(JobEvent.data).where(JobEvent.kind == EventKind.WAITS_FOR_FILES))
    assert said == {"dataset": "chips@1", "hosts": ["hb"]}
    with site.sessions.begin() as session:
        leases.end(session, lease, EndReason.HOST_LOST)
        leases.release(session, lease.attempt_id)
        session.execute(update(Job).values(not_before=None))
    with site.sessions.begin() as session:
        shares = (Share("ha", (0,)), Share("hb", (0,)))
        again = placing.place(session, [Placement(lease.job_id, shares)], lease_s=60)[0]
    assert not task_on(site, site.ha, again).waits_for_data


def test_a_host_that_cannot_have_the_data_ends_the_attempt(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.store.remove([site.store.files("uploads")[0].key])
    lease = site.attempt("ha", "hb")
    task = task_on(site, site.ha, lease)
    fetcher.start()
    assert not Start(task, site.sessions, site.ha, []).run()
    with site.sessions() as session:
        attempt = session.get_one(Attempt, lease.attempt_id)
        assert attempt.end_reason == EndReason.BAD_DATA
        assert attempt.error == "host hb cannot have chips@1: the store has lost the bytes at 0"
        assert get_job(session, lease.job_id).status == "failed"


def test_versions_on_disk_need_no_rows(site: Site) -> None:
    """Those that were uploaded before there was a store lie in a folder that the hosts share."""
    site.validated()
    with site.sessions.begin() as session:
        session.execute(update(Upload).values(in_store=False))
    lease = site.attempt("hb")
    with site.sessions() as session:
        assert host_datasets.wanted(session, "hb") == []
        ref = get_job(session, lease.job_id).dataset_ref
        assert ref is not None
        assert host_datasets.arrivals(session, ref, lease.attempt_id) == []
