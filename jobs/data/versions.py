"""The rows of registered datasets: register, list, look up, remove.

Called by the api. `jobs.lifecycle.dataset_refs` says what a job's row stores of its version. Every function works in
the caller's transaction.

    DatasetNotFound     no such name, or no such version of it
    DatasetInUse        jobs that have not ended train on the version
    TooManyDatasets     the user has registered as many versions as allowed
"""

from collections.abc import Sequence

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import distinct_on
from sqlalchemy.orm import Session

from jobs.data import samples
from jobs.db import cursors
from jobs.db.cursors import BY_NAME, BY_NUMBER, Page, page_of
from jobs.db.tables import DatasetVersion, Job
from jobs.model.catalog import DATASETS
from jobs.model.states import TERMINAL
from jobs.model.tasks import CLASSIFICATION
from jobs.views.data import DatasetLine, DatasetStatus, NewDataset

_LIST, _VERSIONS = "datasets", "dataset versions"  # what their cursors belong to
_LISTED = DatasetVersion.deleted_at.is_(None)
_READY = DatasetVersion.status == "ready"
_MOST_NAMED = 5  # jobs in a message
MOST_OF_AN_OWNER = 1000  # versions that are in the list
MOST_VALIDATING = 50  # versions of one owner that a worker has not validated yet


class DatasetNotFound(LookupError):
    """There is no dataset of this name, or no such version of it."""


class DatasetInUse(ValueError):
    """Jobs that have not ended train on the version."""

    def __init__(self, name: str, version: int, job_ids: Sequence[str]) -> None:
        more = "" if len(job_ids) < _MOST_NAMED else " and more"
        super().__init__(f"{name}@{version} is used by jobs that have not ended: {', '.join(job_ids)}{more}")


class TooManyDatasets(ValueError):
    """The user has registered as many versions as allowed."""


def register(
    session: Session,
    new: NewDataset,
    *,
    owner: str,
    key: str | None = None,
    request_sha256: str | None = None,
) -> DatasetVersion:
    """Add the next version of a name, to be validated. An upload gets a folder with that name and version.

    Raises `TooManyDatasets`.
    """
    _require_share(session, owner)
    # Concurrent registrations of one name take turns here.
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"dataset\n{new.name}", 0))))
    newest = session.scalar(select(func.max(DatasetVersion.version)).where(DatasetVersion.name == new.name)) or 0
    row = DatasetVersion(
        name=new.name,
        version=newest + 1,
        source=new.source if new.source is not None else f"{new.name}/{newest + 1}",
        description=new.description,
        options=new.options,
        upload_id=new.upload,
        created_by=owner,
        idempotency_key=key,
        request_sha256=request_sha256,
    )
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def _require_share(session: Session, owner: str) -> None:
    """Refuse one more version of a user who has too many. Requests of one user take turns here until the commit."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"datasets\n{owner}", 0))))
    validating = func.count().filter(DatasetVersion.status == "validating")
    listed, waiting = session.execute(
        select(func.count(), validating).where(_LISTED, DatasetVersion.created_by == owner)
    ).one()
    if listed >= MOST_OF_AN_OWNER:
        raise TooManyDatasets(f"{owner} has registered {listed:,} versions of datasets, the most allowed: remove some")
    if waiting >= MOST_VALIDATING:
        raise TooManyDatasets(f"{waiting} datasets of {owner} wait to be validated, the most allowed: wait for some")


def registered_with(session: Session, owner: str, key: str) -> DatasetVersion | None:
    """The version that a request with this Idempotency-Key registered. Others with the key wait for the commit."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"dataset key\n{owner}\n{key}", 0))))
    return session.scalar(
        select(DatasetVersion).where(DatasetVersion.created_by == owner, DatasetVersion.idempotency_key == key)
    )


def list_datasets(session: Session, *, limit: int, cursor: str | None = None) -> Page[DatasetLine]:
    """A page of all names, built-in ones too, sorted by name. Raises `InvalidCursor`."""
    after = cursors.decode(session, cursor, by=BY_NAME, of=_LIST)[0] if cursor is not None else ""
    name = DatasetVersion.name.collate("C")  # sorted as Python sorts
    newest = select(DatasetVersion).where(_LISTED, name > after).ext(distinct_on(name))
    rows = session.scalars(newest.order_by(name, DatasetVersion.version.desc()).limit(limit + 1)).all()
    built_in = [_built_in(name) for name in DATASETS if name > after]
    lines = sorted([*built_in, *map(_line, rows)], key=lambda line: line.name)
    return page_of(session, lines, by=BY_NAME, limit=limit, of=_LIST, position=lambda line: (line.name,))


def _built_in(name: str) -> DatasetLine:
    dataset = DATASETS[name]
    return DatasetLine(**dataset.model_dump(exclude={"shape"}), shape=list(dataset.shape), builtin=True)


def _line(row: DatasetVersion) -> DatasetLine:
    facts = row.facts or {}
    return DatasetLine(
        name=row.name,
        description=row.description,
        trainable=facts["train"] + (facts["validation"] if facts["split"] is not None else 0) if facts else None,
        test=facts.get("test"),
        classes=len(facts["classes"]) if facts else None,
        task=facts.get("task", CLASSIFICATION) if facts else None,
        targets=facts.get("targets", 0) if facts else None,
        shape=facts.get("shape"),
        format=facts.get("format"),
        builtin=False,
        version=row.version,
        status=status_of(row),
        error=row.error,
        created_by=row.created_by,
        created_at=row.created_at,
    )


def status_of(row: DatasetVersion) -> DatasetStatus:
    """The status. The table's check allows no other values."""
    status: DatasetStatus = row.status  # type: ignore[assignment]
    return status


def list_versions(
    session: Session, name: str, *, limit: int, cursor: str | None = None
) -> tuple[Page[DatasetVersion], int | None]:
    """A page of a name's versions, newest first, and the newest that is ready. Raises as above, and `InvalidCursor`."""
    identity = f"{_VERSIONS} {name}"
    of_name = (_LISTED, DatasetVersion.name == name)
    query = select(DatasetVersion).where(*of_name).order_by(DatasetVersion.version.desc()).limit(limit + 1)
    if cursor is not None:
        (version,) = cursors.decode(session, cursor, by=BY_NUMBER, of=identity)
        query = query.where(DatasetVersion.version < version)
    rows = session.scalars(query).all()
    if not rows and cursor is None:
        raise DatasetNotFound(name)
    newest_ready = session.scalar(select(func.max(DatasetVersion.version)).where(*of_name, _READY))
    page = page_of(session, rows, by=BY_NUMBER, limit=limit, of=identity, position=lambda row: (row.version,))
    return page, newest_ready


def get_version(session: Session, name: str, version: int, *, to_change: bool = False) -> DatasetVersion:
    """One version. With `to_change` it is locked: no new job can use it before the commit. Raises `DatasetNotFound`."""
    query = select(DatasetVersion).where(_LISTED, DatasetVersion.name == name, DatasetVersion.version == version)
    row = session.scalar(query.with_for_update() if to_change else query, execution_options={"populate_existing": True})
    if row is None:
        raise DatasetNotFound(f"{name}@{version}")
    return row


def remove(session: Session, row: DatasetVersion) -> None:
    """Remove a version from the list. `get_version` has locked it. Raises `DatasetInUse`."""
    in_use = session.scalars(
        select(Job.id)
        .where(Job.status.not_in(TERMINAL), Job.dataset_ref.contains({"name": row.name, "version": row.version}))
        .order_by(Job.created_at)
        .limit(_MOST_NAMED)
    ).all()
    if in_use:
        raise DatasetInUse(row.name, row.version, in_use)
    row.deleted_at = func.now()
    row.revision += 1
    samples.remove(session, row.id)
    session.flush()


def names(session: Session, *, most: int = 20) -> list[str]:
    """The first registered names, for a message."""
    return list(
        session.scalars(select(DatasetVersion.name).where(_LISTED).distinct().order_by(DatasetVersion.name).limit(most))
    )


def labels_of_all(session: Session, *, most: int, with_versions: bool) -> list[str]:
    """The registered names, or each with its versions (`chips@3`)."""
    if not with_versions:
        return names(session, most=most)
    columns = (DatasetVersion.name, DatasetVersion.version)
    rows = session.execute(select(*columns).where(_LISTED).order_by(*columns).limit(most))
    return [f"{name}@{version}" for name, version in rows]


def versions_of(session: Session, name: str) -> Sequence[DatasetVersion]:
    """All versions of a name that are in the list, newest first."""
    query = select(DatasetVersion).where(_LISTED, DatasetVersion.name == name)
    return session.scalars(query.order_by(DatasetVersion.version.desc())).all()
