"""The rows of the pieces of uploads in the store. The api writes pieces, and workers make datasets from them.

A row says which piece counts; its key has the digest of its content. So two requests that send the same part of an
upload do not disturb each other. Every function works in the caller's transaction. `jobs.data.pieces_in_store` has what
needs the store itself.

DamagedPiece    a piece is gone, or has other bytes than those that were sent
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlalchemy import delete, func, insert, select, update
from sqlalchemy.orm import Session

from jobs.data.uploads import get_upload, is_needed
from jobs.db.tables import Upload, UploadPiece


class DamagedPiece(ValueError):
    """A piece is gone, or has other bytes than those that were sent; the text is a sentence."""


@dataclass(frozen=True)
class Piece:
    """A part of an upload, from byte `start` on."""

    upload_id: str
    start: int
    size_bytes: int
    sha256: str

    @property
    def end(self) -> int:
        """The byte of the archive after its last one."""
        return self.start + self.size_bytes

    @property
    def key(self) -> str:
        """Where it is in the store."""
        return f"{folder_of(self.upload_id)}/{self.start:020d}-{self.sha256[:16]}"


def advance(session: Session, piece: Piece) -> Upload:
    """Store that a piece is in the store. If another request stored these bytes before, nothing changes."""
    advanced = session.scalar(
        update(Upload)
        .where(Upload.id == piece.upload_id, Upload.received_bytes == piece.start, Upload.removed_at.is_(None))
        .values(received_bytes=piece.end, touched_at=func.now())
        .returning(Upload.id)
    )
    if advanced is not None and piece.size_bytes:
        values = {"start": piece.start, "size_bytes": piece.size_bytes, "sha256": piece.sha256}
        session.execute(insert(UploadPiece).values(upload_id=piece.upload_id, **values))
    session.execute(
        update(Upload)
        .where(Upload.id == piece.upload_id, Upload.received_bytes == Upload.size_bytes, Upload.completed_at.is_(None))
        .values(completed_at=func.now())
    )
    return get_upload(session, piece.upload_id)


def pieces_of(session: Session, upload_id: str) -> list[Piece]:
    """The pieces of an upload in their sequence."""
    rows = session.scalars(select(UploadPiece).where(UploadPiece.upload_id == upload_id).order_by(UploadPiece.start))
    return [Piece(row.upload_id, row.start, row.size_bytes, row.sha256) for row in rows]


def count_of(session: Session, upload_id: str) -> int:
    """How many pieces an upload has."""
    count = select(func.count()).select_from(UploadPiece).where(UploadPiece.upload_id == upload_id)
    return session.execute(count).scalar_one()


def unneeded_uploads(session: Session, upload_ids: Sequence[str]) -> list[str]:
    """Those of the uploads that are removed and whose pieces no dataset needs. Unknown ids are left out."""
    is_removed = Upload.id.in_(upload_ids) & Upload.removed_at.is_not(None)
    return list(session.scalars(select(Upload.id).where(is_removed, ~is_needed())))


def forget_pieces(session: Session, upload_id: str) -> None:
    """Remove the rows of pieces that the store has no more."""
    session.execute(delete(UploadPiece).where(UploadPiece.upload_id == upload_id))


def folder_of(upload_id: str) -> str:
    """What the keys of an upload begin with."""
    return f"uploads/{upload_id}"
