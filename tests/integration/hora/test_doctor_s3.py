"""`hora doctor` with a store on a real S3 server."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.doctor.store import store_findings
from jobs.copies import removing
from jobs.copies.marks import require_mark
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from tests.s3 import S3Server, s3_server


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    with s3_server(tmp_path_factory.mktemp("s3")) as server:
        yield server


@pytest.fixture
def store(server: S3Server, sessions: Sessions, database: str, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that is set, and has its mark."""
    monkeypatch.setenv("HORA_STORE", server.url)
    monkeypatch.setenv("HORA_STORE_OPTIONS", json.dumps(server.options))
    monkeypatch.setenv("HORA_DATABASE_URL", database)
    store = Store(server.url, server.options)
    require_mark(sessions, store)
    return store


def test_a_store_on_s3_is_tried_and_its_rules_are_read(store: Store, tmp_path: Path) -> None:
    found = [(finding.check, finding.level) for finding in store_findings(tmp_path)]
    assert found == [("store", "ok"), ("store mark", "ok"), ("store rules", "warn")]
    assert store.files("checks") == []


@pytest.mark.parametrize(
    ("url", "secret", "why"),
    [(None, "hunter2hunter2", "Forbidden"), ("s3://no-such-bucket/team", None, "bucket does not exist")],
)
def test_what_s3_refuses_is_said_without_credentials(
    store: Store, server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, url: str, secret: str, why: str
) -> None:
    monkeypatch.setenv("HORA_STORE", url or server.url)
    monkeypatch.setenv("HORA_STORE_OPTIONS", json.dumps(server.options | ({"secret": secret} if secret else {})))
    (finding,) = store_findings(tmp_path)
    assert (finding.level, why in finding.found) == ("fail", True)
    assert str(secret) not in finding.found


def test_copies_that_are_kept_no_more_are_removed_on_s3(store: Store) -> None:
    for job_id in ("0aaa", "0bbb"):
        for name in ("checkpoints/attempt-1/step-0000000007/a b.h5", "manifests/checkpoint-1-0000000007.json"):
            store.write(f"jobs/{job_id}/{name}", b"{}")
        for number in range(40):
            store.write(f"jobs/{job_id}/artifacts/attempt-1/abc/{number}", b"x")
    assert removing.jobs_in(store) == ["0aaa", "0bbb"]
    removing.remove_kept_no_more(store, "0aaa", checkpoints=True, artifacts=False)
    assert {file.key.split("/")[2] for file in store.files("jobs/0aaa")} == {"artifacts"}
    removing.remove_kept_no_more(store, "0aaa", checkpoints=True, artifacts=True)
    assert store.files("jobs/0aaa") == []
    assert len(store.files("jobs/0bbb")) == 42
