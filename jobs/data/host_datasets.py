"""Which hosts have the datasets that are made from uploads in the store. Each host fetches what its attempts need.

Written by `worker.datasets.fetcher`. Read by supervisors, which start no rank before all hosts of the attempt have the
data. Every function works in the caller's transaction.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from typing import NamedTuple

from sqlalchemy import ColumnElement, delete, exists, func, or_, select, tuple_
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Session

from jobs.data.upload_pieces import Piece, pieces_of
from jobs.data.validation import Archive, archive_of
from jobs.db.tables import Attempt, DatasetVersion, Host, HostDataset, Job, Slot, Upload
from jobs.lifecycle.dataset_refs import Ref, trains_on_version
from jobs.model.states import TERMINAL, EndReason
from jobs.scheduling.placement_rows import is_alive

_KEY = [HostDataset.host, HostDataset.version_id]


@dataclass(frozen=True)
class Wanted:
    """A version that an attempt needs on a host which does not have it."""

    id: int
    name: str
    version: int
    archive: Archive
    pieces: Sequence[Piece]

    def __str__(self) -> str:
        return f"{self.name}@{self.version}"


class UnusedVersion(NamedTuple):
    """A version that no job needs."""

    id: int
    name: str
    version: int


@dataclass(frozen=True)
class Arrival:
    """How far a host is with the data of an attempt."""

    host: str
    is_here: bool
    is_alive: bool  # its worker sends heartbeats
    silent_s: float  # since it last came closer to that, or since the attempt began
    failed_for: EndReason | None  # the host has given up for this attempt
    error: str | None


def wanted(session: Session, host: str) -> list[Wanted]:
    """What the attempts that hold slots of a host need, and the host does not have. The oldest attempt comes first.

    What failed for good is wanted again by a later attempt.
    """
    needs = _needs(session, host)
    if not needs:
        return []
    here = (HostDataset.host == host) & (HostDataset.version_id == DatasetVersion.id)
    query = (
        select(DatasetVersion, Upload, HostDataset)
        .join(Upload, Upload.id == DatasetVersion.upload_id)
        .outerjoin(HostDataset, here)
        .where(tuple_(DatasetVersion.name, DatasetVersion.version).in_(needs), Upload.in_store)
    )
    found = {}
    for row, upload, at_host in session.execute(query):
        if _is_missing(at_host, needs[row.name, row.version]):
            found[row.name, row.version] = Wanted(
                row.id, row.name, row.version, archive_of(upload), pieces_of(session, upload.id)
            )
    return [found[key] for key in needs if key in found]


def some_are_needed(host: str) -> ColumnElement[bool]:
    """Whether attempts on a host need versions that are made from uploads, as SQL. The host may have them.

    Written so that the database can only begin with the slots of the host.
    """
    job_id = select(Attempt.job_id).where(Attempt.id == Slot.attempt_id, Attempt.ended_at.is_(None)).correlate(Slot)
    is_upload = select(Job.dataset_ref["uploaded"].as_boolean()).where(Job.id == job_id.scalar_subquery())
    return exists().where(Slot.host == host, is_upload.correlate(Slot).scalar_subquery())


def _needs(session: Session, host: str) -> dict[tuple[str, int], datetime]:
    """The versions that attempts on a host need, and when the newest of those attempts was placed."""
    query = (
        select(Job.dataset_ref, Attempt.created_at)
        .join(Attempt, Attempt.job_id == Job.id)
        .where(
            Attempt.ended_at.is_(None),
            exists().where(Slot.attempt_id == Attempt.id, Slot.host == host),
            Job.dataset_ref["uploaded"].as_boolean(),
        )
        .order_by(Attempt.id)
    )
    return {(ref["name"], ref["version"]): created_at for ref, created_at in session.execute(query)}


def _is_missing(at_host: HostDataset | None, for_attempt_at: datetime) -> bool:
    return at_host is None or (at_host.ready_at is None and not _has_failed(at_host, for_attempt_at))


def _has_failed(row: HostDataset, for_attempt_at: datetime) -> bool:
    return row.failed_for is not None and row.moved_at >= for_attempt_at


def arrivals(session: Session, ref: Ref, attempt_id: int, *, host_timeout_s: float) -> list[Arrival]:
    """How far the hosts of an attempt are with its data. Empty if the data is not made from an upload in the store."""
    attempt = session.get_one(Attempt, attempt_id)
    version = session.scalar(
        select(DatasetVersion)
        .join(Upload, Upload.id == DatasetVersion.upload_id)
        .where(DatasetVersion.name == ref["name"], DatasetVersion.version == ref["version"], Upload.in_store)
    )
    if version is None:
        return []
    hosts = select(Slot.host).where(Slot.attempt_id == attempt_id).distinct().subquery()
    silent_since = func.greatest(HostDataset.moved_at, attempt.created_at)
    silent_s = func.extract("epoch", func.now() - silent_since)
    rows = session.execute(
        select(hosts.c.host, HostDataset, is_alive(host_timeout_s), silent_s)
        .join(Host, Host.name == hosts.c.host)
        .outerjoin(HostDataset, (HostDataset.host == hosts.c.host) & (HostDataset.version_id == version.id))
        .order_by(hosts.c.host)
    )
    return [_arrival(host, row, alive, silent, attempt) for host, row, alive, silent in rows]


def _arrival(host: str, row: HostDataset | None, alive: bool, silent_s: Decimal, attempt: Attempt) -> Arrival:
    failed_for = EndReason(str(row.failed_for)) if row is not None and _has_failed(row, attempt.created_at) else None
    return Arrival(
        host, is_here=row is not None and row.ready_at is not None, is_alive=bool(alive), silent_s=float(silent_s),
        failed_for=failed_for, error=None if row is None else row.error,
    )  # fmt: skip


def moves(session: Session, host: str, version_id: int) -> None:
    """Store that a host fetches a version, and has come closer to having it. Nothing changes if it has it."""
    values = {"moved_at": func.now(), "failed_for": None, "error": None}
    row = insert(HostDataset).values(host=host, version_id=version_id, **values)
    session.execute(row.on_conflict_do_update(index_elements=_KEY, set_=values, where=HostDataset.ready_at.is_(None)))


def is_here(session: Session, host: str, version_id: int) -> None:
    """Store that a host has a version."""
    _store(session, host, version_id, moved_at=func.now(), ready_at=func.now(), failed_for=None, error=None)


def waits(session: Session, host: str, version_id: int, error: str) -> None:
    """Store why a host does not get on with a version. It tries again."""
    _store(session, host, version_id, ready_at=None, error=error)


def failed(session: Session, host: str, version_id: int, reason: EndReason, error: str) -> None:
    """Store that a host cannot get a version for the attempts that need it now."""
    _store(session, host, version_id, moved_at=func.now(), ready_at=None, failed_for=reason.value, error=error)


def versions_here(session: Session, host: str) -> dict[int, tuple[str, int]]:
    """Name and number of the versions that a host has, by their ids."""
    query = select(DatasetVersion.id, DatasetVersion.name, DatasetVersion.version).join(
        HostDataset, HostDataset.version_id == DatasetVersion.id
    )
    rows = session.execute(query.where(HostDataset.host == host, HostDataset.ready_at.is_not(None)))
    return {row.id: (row.name, row.version) for row in rows}


def gone(session: Session, host: str, version_id: int) -> None:
    """Forget that a host has a version."""
    session.execute(delete(HostDataset).where(HostDataset.host == host, HostDataset.version_id == version_id))


def unused(session: Session, versions_by_name: Mapping[str, Sequence[int]], *, keep_days: float) -> list[UnusedVersion]:
    """Those of the versions that the store has, and that no job needs now, or needed in the last days."""
    among = [(name, version) for name, versions in versions_by_name.items() for version in versions]
    recently = func.now() - timedelta(days=keep_days)
    needs = exists().where(trains_on_version(), or_(Job.status.not_in(TERMINAL), Job.ended_at > recently))
    query = (
        select(DatasetVersion.id, DatasetVersion.name, DatasetVersion.version)
        .join(Upload, Upload.id == DatasetVersion.upload_id)
        .where(
            tuple_(DatasetVersion.name, DatasetVersion.version).in_(among), Upload.in_store,
            DatasetVersion.status == "ready", DatasetVersion.validated_at < recently, ~needs,
        )
    )  # fmt: skip
    return [UnusedVersion(*row) for row in session.execute(query)]


def release(session: Session, version_id: int) -> bool:
    """Begin to remove the files of a version that can be fetched again: no host counts as having it any more.

    Hosts may share the folder. No job can be submitted on the version until the commit. False if a job needs it.
    """
    version = session.get_one(DatasetVersion, version_id, with_for_update=True, populate_existing=True)
    if session.scalar(select(Job.id).where(_of(version), Job.status.not_in(TERMINAL)).limit(1)) is not None:
        return False
    session.execute(delete(HostDataset).where(HostDataset.version_id == version_id))
    return True


def is_released(session: Session, version_id: int) -> bool:
    """Whether the files of a version can go: still no host counts as having it. Keeps that so until the commit."""
    version = session.get_one(DatasetVersion, version_id, with_for_update=True, populate_existing=True)
    needs = session.scalar(select(Job.id).where(_of(version), Job.status.not_in(TERMINAL)).limit(1))
    has = session.scalar(select(HostDataset.host).where(HostDataset.version_id == version_id).limit(1))
    return needs is None and has is None


def _store(session: Session, host: str, version_id: int, **values: object) -> None:
    row = insert(HostDataset).values(host=host, version_id=version_id, **values)
    session.execute(row.on_conflict_do_update(index_elements=_KEY, set_=values))


def _of(version: DatasetVersion) -> ColumnElement[bool]:
    return Job.dataset_ref.contains({"name": version.name, "version": version.version})
