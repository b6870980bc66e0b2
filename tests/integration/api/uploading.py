"""Sends uploads in pieces, for the tests of the api."""

import os
from typing import Any

from fastapi import FastAPI
from fastapi.testclient import TestClient

from api.files.stored_uploads import STORED_CHUNK_BYTES
from jobs.copies.store import Store
from jobs.data import pieces_in_store, upload_pieces
from jobs.db.engine import Sessions
from tests.archives import chips, zip_of
from tests.code import OCTETS
from tests.integration.api.starting_rows import TOKEN

ARCHIVE = zip_of(chips(2))


def start(api: TestClient, content: bytes = ARCHIVE, **fields: Any) -> str:
    """Start an upload of this content. Returns its id."""
    answer = api.post("/v1/uploads", json={"filename": "chips.zip", "size_bytes": len(content)} | fields)
    assert answer.status_code == 201, answer.text
    upload_id: str = answer.json()["id"]
    assert answer.headers["Location"] == f"/v1/uploads/{upload_id}"
    return upload_id


def put_piece(api: TestClient, upload_id: str, offset: int, piece: Any) -> Any:
    return api.put(f"/v1/uploads/{upload_id}/content", params={"offset": offset}, content=piece, headers=OCTETS)


def put_messages(api: TestClient, app: FastAPI, upload_id: str, came: list[dict[str, Any]]) -> int:
    """The status of the answer to a first piece whose body comes in these messages of the server."""
    messages, answered = iter(came), []

    async def receive() -> Any:
        return next(messages)

    async def send(message: Any) -> None:
        answered.append(message)

    scope = {
        "type": "http", "method": "PUT", "path": f"/v1/uploads/{upload_id}/content", "query_string": b"offset=0",
        "headers": [(b"authorization", f"Bearer {TOKEN}".encode()), (b"content-type", b"application/octet-stream")],
    }  # fmt: skip
    assert api.portal is not None
    api.portal.call(app, scope, receive, send)
    status: int = answered[0]["status"]
    return status


def received_bytes(api: TestClient, upload_id: str) -> int:
    received: int = api.get(f"/v1/uploads/{upload_id}").json()["received_bytes"]
    return received


def stored(sessions: Sessions, store: Store, upload_id: str) -> bytes:
    """The bytes in the store that workers get."""
    with sessions() as session:
        pieces = upload_pieces.pieces_of(session, upload_id)
    file = os.memfd_create("upload")
    try:
        pieces_in_store.bring(store, pieces, file)
        return os.pread(file, 2 * STORED_CHUNK_BYTES, 0)
    finally:
        os.close(file)
