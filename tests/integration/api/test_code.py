"""Archives of code over HTTP: sent, looked at, downloaded, and named by jobs and studies."""

import hashlib
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from sqlalchemy import func, select

from jobs.data import code
from jobs.db.engine import Sessions
from jobs.db.tables import CodeArchive, CodePiece, CodeSender, Job
from jobs.runtime.settings import Settings
from tests.archives import gzipped, member, tar_of
from tests.code import archive_of, send_code, store_code, upload_code
from tests.integration.api.answers import errors_of, problem
from tests.integration.api.starting_rows import TOKEN, client_with
from tests.integration.jobs.job_rows import count

SCRIPT = {"command": ["python", "train.py"]}


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path, code="on", max_code_mb=4)


def test_sent_archive_is_described_stored_once_and_comes_back_as_it_was(
    api: TestClient, configuration: Settings, sessions: Sessions, client_of: Callable[..., TestClient]
) -> None:
    archive = archive_of({"train.py": "print(1)\n", "lib/a.py": "x = 1\n"})
    digest = hashlib.sha256(archive).hexdigest()
    answer = send_code(client_of("ann", "code"), archive)
    assert (answer.status_code, answer.headers["Location"]) == (201, f"/v1/code/{digest}")
    view = answer.json()
    assert (view["digest"], view["size_bytes"], view["unpacked_bytes"]) == (digest, len(archive), 15)
    assert [file["path"] for file in view["files"]] == ["lib/a.py", "train.py"]
    assert view["files"][1]["sha256"] == hashlib.sha256(b"print(1)\n").hexdigest()
    read = api.get(f"/v1/code/{digest}")
    assert (read.json(), read.headers["ETag"]) == (view, answer.headers["ETag"])
    download = api.get(f"/v1/code/{digest}/archive")
    assert download.content == archive
    assert download.headers["Content-Disposition"] == f'attachment; filename="code-{digest[:12]}.tar.gz"'
    assert "immutable" in download.headers["Cache-Control"]
    again = api.get(f"/v1/code/{digest}/archive", headers={"If-None-Match": download.headers["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    for sender in (client_of("ann", "code"), api):
        repeated = send_code(sender, archive)
        assert (repeated.status_code, repeated.json()["digest"]) == (200, digest)
    assert (count(sessions, CodeArchive), count(sessions, CodePiece), count(sessions, CodeSender)) == (1, 1, 2)
    assert not any((configuration.datasets / ".uploads").iterdir())


# More hostile archives: `tests/unit/jobs/data/test_code_archives.py`.
REFUSED: list[tuple[bytes, dict[str, str], str]] = [
    (tar_of({"a.py": b""}, member("out", tarfile.SYMTYPE, "/etc/passwd")), {}, "belongs to a link"),
    (gzipped(tar_of({"zeros": bytes(90_000_000)})), {}, "bytes come out of it"),
    (b"print()", {}, "not a known kind of archive"),
    (archive_of(), {"sha256": "0" * 64}, "another SHA-256"),
    (bytes(4_000_001), {"purpose": "data"}, "at most 4000000 bytes"),
]


def test_hostile_and_wrong_archives_are_refused_at_the_field(api: TestClient, sessions: Sessions) -> None:
    for archive, fields, reason in REFUSED:
        upload_id = upload_code(api, archive, **fields)
        assert reason in errors_of(api.post("/v1/code", json={"upload": upload_id}))["upload"]
        if not fields:
            assert api.get(f"/v1/uploads/{upload_id}").json()["removed_at"] is not None  # it does not count as open
    assert count(sessions, CodeArchive) == 0
    before_it_is_sent = {"filename": "code.tar.gz", "size_bytes": 2 * 10**9, "purpose": "code"}
    assert errors_of(api.post("/v1/uploads", json=before_it_is_sent)) == {
        "size_bytes": "an archive of code may have at most 4000000 bytes here"
    }


def test_upload_has_to_be_there_and_complete(api: TestClient) -> None:
    assert errors_of(api.post("/v1/code", json={"upload": "nothere"})) == {"upload": "there is no such upload"}
    new = {"filename": "code.tar.gz", "size_bytes": 10, "purpose": "code"}
    unfinished = api.post("/v1/uploads", json=new).json()["id"]
    assert "has 0 of 10 bytes" in errors_of(api.post("/v1/code", json={"upload": unfinished}))["upload"]
    upload_id = upload_code(api, archive_of())
    assert api.post("/v1/code", json={"upload": upload_id}).status_code == 201
    assert "its bytes are gone" in errors_of(api.post("/v1/code", json={"upload": upload_id}))["upload"]


def test_archive_is_for_its_senders_until_a_job_runs_it(client_of: Callable[..., TestClient]) -> None:
    """Who may read it: `tests/integration/api/rights/table.py`."""
    sender, other = client_of("ann", "code"), client_of("ben", "code")
    digest = send_code(sender, archive_of()).json()["digest"]
    spec = {**SCRIPT, "code": digest}
    assert errors_of(other.post("/v1/jobs", json=spec)) == {"code": "no such code: send it with POST /v1/code"}
    assert sender.post("/v1/jobs", json=spec).status_code == 201
    assert other.post("/v1/jobs", json=spec).status_code == 201


def test_refusal_of_a_script_names_the_scope_code(
    api: TestClient, sessions: Sessions, client_of: Callable[..., TestClient]
) -> None:
    """Which routes need the scope, also without a dry run: `tests/integration/api/rights/table.py`."""
    spec = {**SCRIPT, "code": store_code(sessions, owner="ann")}
    narrow, wide = client_of("ann", "submit"), client_of("ann", "code")
    job_id = wide.post("/v1/jobs", json=spec).json()["id"]
    study = {"name": "s", "base": spec, "grid": {"seed": [1, 2]}}
    for path, body in (("/v1/jobs", spec), (f"/v1/jobs/{job_id}/clone", {}), ("/v1/studies", study)):
        refusal = narrow.post(path, json=body, params={"dry_run": True})
        assert refusal.status_code == 403, path
        assert 'error="insufficient_scope", scope="code"' in refusal.headers["WWW-Authenticate"]
        assert wide.post(path, json=body, params={"dry_run": True}).status_code == 200, path
    assert narrow.post(f"/v1/jobs/{job_id}/cancel").status_code == 202


def test_job_keeps_its_code_and_can_be_read_everywhere_without_data_and_model(
    api: TestClient, sessions: Sessions
) -> None:
    digest = store_code(sessions)
    with sessions.begin() as session:
        session.get_one(CodeArchive, digest).used_at = func.now() - func.make_interval(0, 0, 0, 40)
    spec = {**SCRIPT, "code": digest, "name": "regression"}
    assert api.post("/v1/jobs", params={"dry_run": True}, json=spec).status_code == 200
    job = api.post("/v1/jobs", json=spec).json()
    assert job["code"] == job["spec"]["code"] == digest
    with sessions.begin() as session:
        assert session.get_one(Job, job["id"]).code == digest
        assert not code.remove_unused(session, keep_days=30)
        assert session.get(CodeArchive, digest) is not None  # its use was noted
    assert job["spec"]["dataset"] is job["spec"]["model"] is None
    parts = ("", "/analysis", "/advice", "/metrics", "/utilization", "/logs", "/attempts", "/events", "/artifacts")
    sorts = [f"/v1/jobs?sort={sort}" for sort in ("name", "-created_at", "val_accuracy", "metrics.loss")]
    for path in (*(f"/v1/jobs/{job['id']}{part}" for part in parts), *sorts, "/metrics"):
        assert api.get(path).status_code == 200, path
    found = api.get("/v1/jobs", params={"search": "regression"}).json()["items"]
    assert [each["id"] for each in found] == [job["id"]]


def test_stack_that_runs_no_code_says_so(configuration: Settings, sessions: Sessions) -> None:
    digest = store_code(sessions)
    with client_with(configuration, code="off") as api:
        new = {"filename": "code.tar.gz", "size_bytes": 10, "purpose": "code"}
        for refusal in (api.post("/v1/code", json={"upload": "any"}), api.post("/v1/uploads", json=new)):
            assert (refusal.status_code, refusal.json()["type"]) == (409, "urn:hora:problem:code-off")
        assert "HORA_CODE=on" in errors_of(api.post("/v1/jobs", json={**SCRIPT, "code": digest}))["code"]


def test_oldest_unused_archives_of_a_user_make_room(sessions: Sessions) -> None:
    digests = [store_code(sessions, {"a.py": str(number)}, owner="ann") for number in range(code.MOST_UNUSED)]
    store_code(sessions, {"a.py": "1"}, owner="ben")
    newest = store_code(sessions, {"a.py": "newest"}, owner="ann")
    with sessions() as session:
        left = set(session.scalars(select(CodeArchive.digest)))
        of_ann = set(session.scalars(select(CodeSender.digest).where(CodeSender.owner == "ann")))
    assert left == {*digests[1:], newest} == of_ann
    second = store_code(sessions, {"a.py": "newer"}, owner="ann")
    with sessions() as session:
        left = set(session.scalars(select(CodeArchive.digest)))
    assert left == {*digests[1:], newest, second}  # the second one is ben's too


SAME = {"same.py": "y\n", "lib/é.py": "é\n", "long.txt": "x" * 600_000}
BEFORE = SAME | {"train.py": "a = 1\nb = 2\n", "old.py": "x\n", "data.bin": "\0"}
AFTER = SAME | {"train.py": "a = 1\nb = 3\n", "lib/new.py": "z\n", "data.bin": "\0\0"}


def test_texts_of_files_are_sent_and_archives_are_compared_by_file_and_line(
    api: TestClient, sessions: Sessions
) -> None:
    before, after = store_code(sessions, BEFORE), store_code(sessions, AFTER)
    address = f"/v1/code/{before}/files"
    text = api.get(f"{address}/lib/é.py")
    assert (text.status_code, text.text, text.headers["Content-Type"]) == (200, "é\n", "text/plain; charset=utf-8")
    assert text.headers["X-Content-Type-Options"] == "nosniff"
    assert "sandbox" in text.headers["Content-Security-Policy"]
    assert api.get(f"{address}/lib/é.py", headers={"If-None-Match": text.headers["ETag"]}).status_code == 304
    misspelt = api.get(f"{address}/trian.py")
    assert misspelt.status_code == 404
    assert misspelt.json()["detail"].endswith("; did you mean train.py?")
    for path in ("../train.py", "lib", "/etc/passwd"):
        assert api.get(f"{address}/{path.replace('/', '%2F')}").status_code == 404
    for path in ("data.bin", "long.txt"):
        assert "is no text or is too long" in problem(api.get(f"{address}/{path}"), 409, "no-text")["detail"]

    answer = api.get(f"/v1/code/{before}/diff/{after}")
    assert answer.status_code == 200, answer.text
    assert {file["path"]: (file["change"], file["hunks"]) for file in answer.json()["files"]} == {
        "data.bin": ("changed", None),
        "lib/new.py": ("added", "@@ -0,0 +1 @@\n+z"),
        "old.py": ("removed", "@@ -1 +0,0 @@\n-x"),
        "train.py": ("changed", "@@ -1,2 +1,2 @@\n a = 1\n-b = 2\n+b = 3"),
    }
    known = {"If-None-Match": answer.headers["ETag"]}
    assert api.get(f"/v1/code/{before}/diff/{after}", headers=known).status_code == 304
    assert api.get(f"/v1/code/{before}/diff/{before}").json()["files"] == []
    assert api.get(f"/v1/code/{before}/diff/{'0' * 64}").status_code == 404
