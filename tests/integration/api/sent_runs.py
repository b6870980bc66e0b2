"""Sends runs that were trained without the service, as `hora import` does. For tests of imports."""

from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from hora.service.sending_runs import packed_run

OCTETS = {"Content-Type": "application/octet-stream"}


def bytes_of(folder: Path) -> bytes:
    with packed_run(folder) as run:
        return run.read(0, run.size_bytes)


def uploaded(api: TestClient, sent: bytes) -> str:
    """The id of an upload with these bytes."""
    new = {"filename": "run.jsonl", "size_bytes": len(sent), "purpose": "run"}
    upload = api.post("/v1/uploads", json=new)
    assert upload.status_code == 201, upload.text
    upload_id = upload.json()["id"]
    piece = api.put(f"/v1/uploads/{upload_id}/content?offset=0", content=sent, headers=OCTETS)
    assert piece.status_code == 200, piece.text
    return str(upload_id)


def send(api: TestClient, sent: bytes) -> Any:
    """The answer to an import of these bytes."""
    return api.post("/v1/imports", json={"upload": uploaded(api, sent)})


def imported(api: TestClient, folder: Path) -> Any:
    answer = send(api, bytes_of(folder))
    assert answer.status_code == 201, answer.text
    return answer.json()
