"""Archives of code that tests start from, written to the database as the service writes them."""

import hashlib
import io
import tarfile
from collections.abc import Mapping

from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, CodePiece

_PIECE_BYTES = 100_000


def packed(files: Mapping[str, bytes]) -> bytes:
    """A `.tar.gz` of these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


def an_archive(sessions: Sessions, content: bytes, *, digest: str | None = None) -> str:
    """Store an archive in pieces. Returns its digest."""
    digest = digest or hashlib.sha256(content).hexdigest()
    with sessions.begin() as session:
        session.add(CodeArchive(digest=digest, size_bytes=len(content), unpacked_bytes=0, files=[]))
        session.flush()
        pieces = [content[at : at + _PIECE_BYTES] for at in range(0, len(content), _PIECE_BYTES)]
        session.add_all(CodePiece(digest=digest, number=number, content=piece) for number, piece in enumerate(pieces))
    return digest
