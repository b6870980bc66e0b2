"""The rows of uploads: archives that arrive in pieces. Called by the api; `api.files.upload_files` writes their bytes.

Every function works in the caller's transaction.

    UploadNotFound      no upload has this id
    TooManyUploads      the user has as many open uploads as allowed
    UploadGone          its bytes are gone: it became a dataset, or was deleted
    UploadUnfinished    some of its bytes have not arrived
    UploadInUse         a dataset is being made from it
"""

from collections.abc import Collection
from datetime import timedelta

from sqlalchemy import ColumnElement, String, cast, exists, func, or_, select, update
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db import cursors
from jobs.db.cursors import BY_NAME, Page, page_of
from jobs.db.tables import DatasetVersion, Job, Upload
from jobs.lifecycle.dataset_refs import trains_on_version
from jobs.lifecycle.store import new_id
from jobs.model.states import TERMINAL
from jobs.views.data import NewUpload

FOLDER = ".uploads"  # below `settings.datasets`: one file for each upload, named by its id
_LIST = "uploads"  # what its cursors belong to


class UploadNotFound(LookupError):
    """There is no upload with this id."""


class TooManyUploads(ValueError):
    """The user has as many open uploads as allowed."""

    def __init__(self, most: int) -> None:
        super().__init__(f"you have {most} open uploads, the most at once: register them as datasets, or delete some")


class UploadGone(ValueError):
    """The upload's bytes are gone."""

    def __init__(self, upload_id: str) -> None:
        super().__init__(f"upload {upload_id} became a dataset or was removed: its bytes are gone")


class UploadUnfinished(ValueError):
    """Some bytes of the upload have not arrived."""

    def __init__(self, row: Upload) -> None:
        super().__init__(f"upload {row.id} has {row.received_bytes} of {row.size_bytes} bytes")


class UploadInUse(ValueError):
    """A dataset is being made, or is about to be made, from the upload."""

    def __init__(self, upload_id: str, row: DatasetVersion) -> None:
        super().__init__(f"upload {upload_id} is {row.name}@{row.version}")


def start(session: Session, new: NewUpload, *, owner: str, most_open: int, in_store: bool = False) -> Upload:
    """Begin an upload, whose bytes come to the store or to the folder of datasets. Raises `TooManyUploads`."""
    session.execute(select(func.pg_advisory_xact_lock(func.hashtextextended(f"uploads\n{owner}", 0))))
    open_ones = select(func.count()).select_from(Upload).where(Upload.owner == owner, Upload.removed_at.is_(None))
    if session.execute(open_ones).scalar_one() >= most_open:
        raise TooManyUploads(most_open)
    row = Upload(id=new_id(), owner=owner, in_store=in_store, **new.model_dump(exclude={"purpose"}))
    session.add(row)
    session.flush()
    session.refresh(row)
    return row


def get_upload(session: Session, upload_id: str, *, to_change: bool = False) -> Upload:
    """One upload. With `to_change` it is locked until the commit. Raises `UploadNotFound`."""
    row = session.get(Upload, upload_id, populate_existing=True, with_for_update=to_change)
    if row is None:
        raise UploadNotFound(upload_id)
    return row


def list_uploads(session: Session, *, owner: str, limit: int, cursor: str | None = None) -> Page[Upload]:
    """A page of a user's open uploads, the oldest first. Raises `InvalidCursor`."""
    query = select(Upload).where(Upload.owner == owner, Upload.removed_at.is_(None))
    if cursor is not None:
        query = query.where(Upload.id > cursors.decode(session, cursor, by=BY_NAME, of=f"{_LIST} {owner}")[0])
    rows = session.scalars(query.order_by(Upload.id).limit(limit + 1)).all()
    return page_of(session, rows, by=BY_NAME, limit=limit, of=f"{_LIST} {owner}", position=lambda row: (row.id,))


def advance(session: Session, upload_id: str, *, offset: int, size_bytes: int) -> Upload:
    """Store that the bytes from `offset` on have arrived. If another request stored that before, nothing changes."""
    session.execute(
        update(Upload)
        .where(Upload.id == upload_id, Upload.received_bytes == offset, Upload.removed_at.is_(None))
        .values(received_bytes=offset + size_bytes, touched_at=func.now())
    )
    session.execute(
        update(Upload)
        .where(Upload.id == upload_id, Upload.received_bytes == Upload.size_bytes, Upload.completed_at.is_(None))
        .values(completed_at=func.now())
    )
    return get_upload(session, upload_id)


def for_dataset(session: Session, upload_id: str) -> Upload:
    """An upload from which a dataset can be made, locked. Raises all errors of this module except `TooManyUploads`."""
    row = get_upload(session, upload_id, to_change=True)
    if row.removed_at is not None:
        raise UploadGone(upload_id)
    if row.completed_at is None:
        raise UploadUnfinished(row)
    _check_unused(session, upload_id)
    row.touched_at = func.now()
    return row


def remove(session: Session, upload_id: str) -> None:
    """Delete an upload. Repeating it changes nothing. Raises `UploadNotFound`, `UploadInUse`."""
    row = get_upload(session, upload_id, to_change=True)
    if row.removed_at is None:
        _check_unused(session, upload_id)
        row.removed_at = func.now()
        session.flush()


def mark_removed(session: Session, upload_id: str) -> None:
    """Mark an upload as removed: it became a dataset or code, or nothing can be made from it. Its bytes may go."""
    session.execute(update(Upload).where(Upload.id == upload_id).values(removed_at=func.now()))


def _check_unused(session: Session, upload_id: str) -> None:
    version = session.scalar(select(DatasetVersion).where(DatasetVersion.upload_id == upload_id, _NEEDED))
    if version is not None:
        raise UploadInUse(upload_id, version)


# The upload of an invalid version can be registered again, with other options.
_NEEDED = DatasetVersion.status.in_(["validating", "ready"]) & DatasetVersion.deleted_at.is_(None)


def remove_stale(session: Session, *, after_days: float) -> list[str]:
    """Mark old uploads as removed, unless a dataset is being made from them. Returns their ids."""
    validated = exists().where(DatasetVersion.upload_id == Upload.id, _NEEDED)
    stale = Upload.touched_at < func.now() - timedelta(days=after_days)
    return list(
        session.scalars(
            update(Upload)
            .where(Upload.removed_at.is_(None), stale, ~validated)
            .values(removed_at=func.now())
            .returning(Upload.id),
            execution_options={"synchronize_session": False},
        )
    )


def is_needed() -> ColumnElement[bool]:
    """Whether a dataset is made from an upload, or hosts still make one: then its pieces in the store must stay."""
    trains = exists().where(Job.status.not_in(TERMINAL), trains_on_version())
    return exists().where(DatasetVersion.upload_id == Upload.id, or_(_NEEDED, trains))


def unneeded(session: Session, upload_ids: Collection[str]) -> list[str]:
    """Those of the uploads whose bytes may be deleted. Unknown ids are left out."""
    among = Upload.id == func.any(cast(list(upload_ids), ARRAY(String)))
    return list(session.scalars(select(Upload.id).where(among, Upload.removed_at.is_not(None))))
