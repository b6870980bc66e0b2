"""Archives of code for tests: made in memory, stored as rows, or sent through the API."""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastapi.testclient import TestClient

from jobs.data import code
from jobs.data.code import NewCode
from jobs.data.code_archives import inspect
from jobs.db.engine import Sessions
from tests.archives import gzipped, tar_of

TRAIN = {"train.py": "print('training')\n"}
OCTETS = {"Content-Type": "application/octet-stream"}


def archive_of(files: Mapping[str, str] = TRAIN) -> bytes:
    """A .tar.gz of these texts by path. Equal files give equal bytes."""
    return gzipped(tar_of({path: content.encode() for path, content in files.items()}))


def store_code(sessions: Sessions, files: Mapping[str, str] = TRAIN, owner: str = "admin") -> str:
    """Store an archive of these files as rows; its digest."""
    archive = archive_of(files)
    with TemporaryDirectory() as folder:
        path = Path(folder) / "archive"
        path.write_bytes(archive)
        new = NewCode(hashlib.sha256(archive).hexdigest(), len(archive), inspect(path))
    with sessions.begin() as session:
        code.store(session, new, pieces_of(archive), owner=owner)
    return new.digest


def pieces_of(archive: bytes) -> list[bytes]:
    """The bytes of an archive as they are stored."""
    return [archive[start : start + code.PIECE_BYTES] for start in range(0, len(archive), code.PIECE_BYTES)]


def upload_code(api: TestClient, archive: bytes, **fields: Any) -> str:
    """Upload an archive; the upload's id."""
    new = {"filename": "code.tar.gz", "size_bytes": len(archive), "purpose": "code", **fields}
    answer = api.post("/v1/uploads", json=new)
    assert answer.status_code == 201, answer.text
    upload_id: str = answer.json()["id"]
    for start, piece in enumerate(pieces_of(archive)):
        offset = {"offset": start * code.PIECE_BYTES}
        sent = api.put(f"/v1/uploads/{upload_id}/content", params=offset, content=piece, headers=OCTETS)
        assert sent.status_code == 200, sent.text
    return upload_id


def send_code(api: TestClient, archive: bytes, **fields: Any) -> Any:
    """Upload an archive and store it as code; the answer."""
    return api.post("/v1/code", json={"upload": upload_code(api, archive, **fields)})
