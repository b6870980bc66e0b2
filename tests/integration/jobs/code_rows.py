"""Archives of code that tests start from, written to the database as the service writes them."""

import hashlib
from collections.abc import Mapping

from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, CodePiece
from tests.archives import gzipped, tar_of

_PIECE_BYTES = 100_000


def packed(files: Mapping[str, bytes]) -> bytes:
    """A `.tar.gz` of these files."""
    return gzipped(tar_of(files))


def an_archive(sessions: Sessions, content: bytes, *, digest: str | None = None) -> str:
    """Store an archive in pieces, if it is not there. Returns its digest."""
    digest = digest or hashlib.sha256(content).hexdigest()
    with sessions.begin() as session:
        if session.get(CodeArchive, digest) is not None:
            return digest
        session.add(CodeArchive(digest=digest, size_bytes=len(content), unpacked_bytes=0, files=[]))
        session.flush()
        pieces = [content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES)]
        session.add_all(CodePiece(digest=digest, number=number, content=piece) for number, piece in enumerate(pieces))
    return digest
