"""Two hosts without a shared disk, a store, and a dataset that comes from an upload there."""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlalchemy import func, select, update
from sqlalchemy.orm import Session

from jobs.copies.store import Store
from jobs.data import upload_pieces, uploads, versions
from jobs.data.resolving import Registry
from jobs.data.upload_pieces import Piece
from jobs.db.engine import Sessions
from jobs.db.tables import HostDataset, MarkedStore, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease
from jobs.lifecycle.submission import write_job
from jobs.model.plan import resolve_plan
from jobs.model.spec import spec_from
from jobs.model.states import EndReason
from jobs.runtime.files import path_of
from jobs.runtime.settings import Settings
from jobs.scheduling import placing
from jobs.scheduling.decisions import Placement, Share
from jobs.views.data import NewDataset, NewUpload
from tests.archives import chips, zip_of
from tests.integration.jobs.writing import change, write
from tests.integration.worker.datasets.dataset_rows import row_of
from tests.waiting import until
from worker.copies.old import OldCopies
from worker.datasets.fetcher import DatasetFetcher
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
        write(self.sessions, upload_pieces.advance, piece)

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
        change(self.sessions, update(MarkedStore).values(tidied_at=None))
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


def fetch_until(fetcher: DatasetFetcher, condition: Any, what: str) -> None:
    def passes() -> bool:
        fetcher.once()
        return bool(condition())

    until(passes, what=what)


def files_in(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
