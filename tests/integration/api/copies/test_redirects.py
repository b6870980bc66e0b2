"""With `redirect`, a download leads to the store itself, if that can give an address."""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.copies.store import Store, StoreAway
from tests.integration.api.answers import problem
from tests.integration.api.artifacts.conftest import path_of
from tests.integration.api.copies.stored import put_artifacts

ADDRESS = "https://s3.example.com/bucket/key?X-Amz-Signature=5"


@pytest.fixture
def signed(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The store can sign. Holds what it was asked for."""
    asked: list[dict[str, Any]] = []

    def sign(self: Store, key: str, **options: Any) -> str:
        asked.append({"key": key, **options})
        return ADDRESS

    monkeypatch.setattr(Store, "signed_url", sign)
    return asked


def test_a_download_leads_to_the_store_if_the_file_is_there(
    api: TestClient, store: Store, job_id: str, signed: list[dict[str, Any]]
) -> None:
    manifest = put_artifacts(store, job_id, {"größe.html": b"<script>"})
    path = path_of(job_id, "größe.html")
    answer = api.get(path, params={"redirect": "true"}, follow_redirects=False)
    assert (answer.status_code, answer.content) == (307, b"")
    assert (answer.headers["Location"], answer.headers["Cache-Control"]) == (ADDRESS, "no-store")
    assert signed == [
        {
            "key": manifest.files[0].key, "expires_s": 300, "ResponseContentType": "text/html",
            "ResponseContentDisposition": "attachment; filename=\"gr__e.html\"; filename*=UTF-8''gr%C3%B6%C3%9Fe.html",
        }
    ]  # fmt: skip
    tag = api.head(path, params={"redirect": "true"}).headers["ETag"]
    assert api.get(path, params={"redirect": "true"}, headers={"If-None-Match": tag}).status_code == 304
    assert api.get(path, params={"redirect": "false"}).content == b"<script>"

    manifest = put_artifacts(store, job_id, {"x": b"x", "empty": b""})
    assert api.get(path_of(job_id, "empty"), params={"redirect": "true"}, follow_redirects=False).status_code == 307
    store.remove([file.key for file in manifest.files])
    problem(api.get(path_of(job_id, "x"), params={"redirect": "true"}), 404, "copy-lost")
    assert len(signed) == 2  # of the first file and of the empty one


def test_a_store_that_cannot_sign_sends_the_file(
    api: TestClient, store: Store, job_id: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_artifacts(store, job_id, {"x": b"whole"})
    path, params = path_of(job_id, "x"), {"redirect": "true"}
    assert api.get(path, params=params).content == b"whole"
    assert api.get(path, params=params, headers={"Range": "bytes=1-2"}).content == b"ho"

    def refuses(self: Store, key: str, **_: Any) -> str:
        raise StoreAway("you need a private key to sign")

    monkeypatch.setattr(Store, "signed_url", refuses)
    assert api.get(path, params=params).content == b"whole"
