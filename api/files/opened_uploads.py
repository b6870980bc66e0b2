"""Uploads from which a request makes something at once: code, or an imported run. Called by their routes."""

from collections.abc import Iterator
from contextlib import contextmanager

from api.callers import Caller
from api.deps import Services
from api.files import stored_uploads, upload_files
from api.files.upload_files import UploadFile
from api.problems import Problem, invalid
from jobs.data import uploads
from jobs.data.upload_pieces import DamagedPiece
from jobs.data.uploads import UploadGone, UploadInUse, UploadNotFound, UploadUnfinished
from jobs.db.tables import Upload
from jobs.model.problems import FieldProblem


def usable_upload(services: Services, caller: Caller, upload_id: str, what: str, most_bytes: int) -> Upload:
    """The upload, if `what` can be made from it. Raises `Forbidden`, and 422 at the field."""
    try:
        with services.sessions() as session:  # a look: nothing is committed
            caller.require_owner(f"upload {upload_id}", uploads.get_upload(session, upload_id).owner)
            row = uploads.for_dataset(session, upload_id)
    except UploadNotFound:
        raise wrong_upload(upload_id, "there is no such upload") from None
    except (UploadGone, UploadInUse, UploadUnfinished) as error:
        raise wrong_upload(upload_id, str(error)) from None
    if row.size_bytes > most_bytes:
        message = f"{what} may have at most {most_bytes} bytes here, and this one has {row.size_bytes}"
        raise wrong_upload(upload_id, message)
    return row


def wrong_upload(upload_id: str, message: str) -> Problem:
    """422 at the field that names the upload."""
    return invalid([FieldProblem("upload", message, upload_id)])


@contextmanager
def opened(services: Services, row: Upload) -> Iterator[int]:
    """An open file with the bytes of an upload: its own, locked, or one in memory. Raises 422 at the field."""
    if row.in_store:
        try:
            content = stored_uploads.whole_upload(services, row.id)
        except DamagedPiece as error:
            remove_upload(services, row)  # who sends it again begins a new upload
            raise wrong_upload(row.id, f"{error}: send it again") from None
        yield content.descriptor
    else:
        with UploadFile(services.settings.datasets, row.id) as file:
            yield file.descriptor


def remove_upload(services: Services, row: Upload) -> None:
    """Remove an upload of which nothing can be made."""
    with services.sessions.begin() as session:
        uploads.mark_removed(session, row.id)
    remove_bytes(services, row)


def remove_bytes(services: Services, row: Upload) -> None:
    """Remove the bytes of an upload whose row says that it is removed."""
    if not row.in_store:  # a worker removes pieces from the store
        upload_files.remove(services.settings.datasets, row.id)
