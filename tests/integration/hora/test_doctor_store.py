"""What `hora doctor` finds when it tries the store, in a folder and on a real S3 server."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from hora.doctor import store as store_checks
from hora.doctor.findings import Finding
from hora.doctor.machine import data_roots
from hora.doctor.store import store_findings
from hora.home import Home, State
from jobs.copies import removing
from jobs.copies.marks import MARK, require_mark
from jobs.copies.store import Store, StoreAway
from jobs.db.engine import Sessions
from tests.s3 import S3Server, s3_server

SECRET = "hunter2hunter2"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str) -> Path:
    """The folder of a store that is set, on a machine that reaches the database."""
    monkeypatch.setenv("HORA_STORE", f"file://{tmp_path}/team")
    monkeypatch.setenv("HORA_DATABASE_URL", database)
    return tmp_path / "team"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def findings(home: Path) -> dict[str, Finding]:
    """What was found about the store, by check, without where its folder is."""
    found = [finding for finding in store_findings(home) if "file system" not in finding.found]
    assert len({finding.check for finding in found}) == len(found)
    return {finding.check: finding for finding in found}


def test_a_store_is_tried_and_nothing_is_left_in_it(place: Path, home: Path, sessions: Sessions) -> None:
    new = findings(home)
    assert {check: finding.level for check, finding in new.items()} == {"store": "ok", "store mark": "ok"}
    assert "has not used" in new["store mark"].found
    require_mark(sessions, Store(f"file://{place}", {}))
    assert findings(home)["store mark"].found == f"{MARK} is there"
    assert [path.name for path in place.rglob("*") if path.is_file()] == [MARK]


def test_a_store_that_was_emptied_is_not_written(place: Path, home: Path, sessions: Sessions) -> None:
    require_mark(sessions, Store(f"file://{place}", {}))
    shutil.rmtree(place)
    (finding,) = findings(home).values()
    assert (finding.check, finding.level) == ("store mark", "fail")
    assert "is gone" in finding.found
    assert not place.exists()


def test_a_machine_that_does_not_reach_the_database_says_so(
    place: Path, home: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HORA_DATABASE_URL", f"postgresql://hora@/hora?host={home}")
    mark = findings(home)["store mark"]
    assert (mark.level, "cannot ask the database" in mark.found) == ("warn", True)
    monkeypatch.delenv("HORA_DATABASE_URL")
    assert findings(home)["store mark"].level == "warn"
    home.mkdir()
    Home.at(home).write_state(State(database_url=database))  # of a stack on this machine
    assert findings(home)["store mark"].level == "ok"
    monkeypatch.delenv("HORA_STORE")
    assert findings(home) == {}


@pytest.mark.parametrize("method", ["write", "read", "files", "remove_below"])
def test_what_the_store_refuses_is_named(
    place: Path, home: Path, monkeypatch: pytest.MonkeyPatch, method: str, sessions: Sessions
) -> None:
    require_mark(sessions, Store(f"file://{place}", {}))

    def refuse(self: Store, key: str, *rest: object) -> None:
        raise StoreAway("Access Denied")

    of_mark = Store.read
    monkeypatch.setattr(Store, method, refuse)
    if method == "read":
        monkeypatch.setattr(Store, "read", lambda self, key: of_mark(self, key) if key == MARK else refuse(self, key))
    (finding,) = findings(home).values()
    word = {"write": "written", "read": "read", "files": "listed", "remove_below": "removed"}[method]
    assert (finding.level, finding.found) == ("fail", f"file://{place}: a file cannot be {word}: Access Denied")


def test_a_folder_that_does_not_outlive_the_machine_is_a_warning(
    place: Path, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home.mkdir()
    assert [store_checks._is_on_one_disk(Path("/"), other) for other in (Path("/"), Path("/proc"))] == [True, False]
    disks = {home: 1, Path("/"): 2}
    monkeypatch.setattr(store_checks, "_is_on_one_disk", lambda one, other: disks[other] == 1)
    first = next(store_findings(home))
    assert (first.check, first.level) == ("store", "warn")
    assert first.found == f"{place} is on the file system of {home}: it does not outlive this machine"
    disks[home] = 2
    assert all("file system" not in finding.found for finding in store_findings(home))


def test_a_driver_that_is_missing_is_named(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(url: str, **options: object) -> None:
        raise ImportError("Install s3fs to access S3")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    monkeypatch.setenv("HORA_STORE", "s3://bucket/team")
    (finding,) = findings(home).values()
    assert (finding.level, "Install s3fs" in finding.found) == ("fail", True)
    assert "hora[store]" in finding.advice


def test_credentials_are_not_shown(place: Path, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = f'{{"secret": "{SECRET}", "client_kwargs": {{"endpoint_url": "https://me:{SECRET}@store.example"}}}}'
    monkeypatch.setenv("HORA_STORE_OPTIONS", options)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "tokentoken")

    def refuse(self: Store, key: str) -> bytes:
        raise StoreAway(f"no way with {SECRET} and tokentoken at https://me:pass@store.example/x")

    monkeypatch.setattr(Store, "read", refuse)
    (finding,) = findings(home).values()
    assert finding.found == f"file://{place}: no way with *** and *** at https://***@store.example/x"
    monkeypatch.setenv("HORA_STORE_OPTIONS", '{"key": "team"}')
    assert f"file://{place}:" in findings(home)["store"].found  # the address is no secret
    monkeypatch.setenv("HORA_STORE_OPTIONS", f'{{"secret": "{SECRET}"')
    assert SECRET not in str(data_roots())
    assert "HORA_STORE_OPTIONS: write a JSON object" in data_roots().found


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
