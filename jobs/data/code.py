"""The archives of code that people send: stored in pieces, so that every host of the stack can get them.

Every function works in the caller's transaction; the caller commits.

    CodeNotFound     there is no archive with this digest
"""

from collections.abc import Iterator

from sqlalchemy import select
from sqlalchemy.orm import Session

from jobs.db.tables import CodeArchive, CodePiece


class CodeNotFound(LookupError):
    """There is no archive with this digest, or the caller may not see it."""


def pieces_of(session: Session, digest: str) -> Iterator[bytes]:
    """The bytes of an archive, piece by piece. Raises `CodeNotFound`."""
    if session.get(CodeArchive, digest) is None:
        raise CodeNotFound(digest)
    query = select(CodePiece.content).where(CodePiece.digest == digest).order_by(CodePiece.number)
    yield from session.scalars(query.execution_options(yield_per=1))
