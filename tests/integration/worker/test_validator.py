"""New versions of datasets, looked at by a worker's validator: real processes, real rows."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select, update

from jobs.data import uploads, validation, versions
from jobs.db.engine import Sessions
from jobs.db.tables import DatasetVersion, Upload
from jobs.runtime.settings import Settings
from jobs.scheduling.registration import register
from jobs.views.data import NewDataset, NewUpload
from tests.archives import chips, tar_of, zip_of
from tests.full_disks import fill_up, small_disk, use_up_files
from tests.waiting import until
from worker.datasets.folders import OldDatasets
from worker.datasets.validator import Validator, validators_of

Register = Callable[..., int]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


@pytest.fixture
def settings(tmp_path: Path, database: str, broker: str) -> Settings:
    (tmp_path / "data").mkdir()
    return Settings(
        home=tmp_path, database_url=database, broker_url=broker, host_name="ha", data_roots=str(tmp_path / "data"),
        inspection_timeout_s=60, reconcile_period_s=0.05,
    )  # fmt: skip


@pytest.fixture
def validator(sessions: Sessions, settings: Settings) -> Validator:
    return Validator(sessions, settings)


@pytest.fixture
def registered(sessions: Sessions) -> Register:
    """Registers data under the name chips; says the id of the row."""

    def registered(**fields: Any) -> int:
        with sessions.begin() as session:
            return versions.register(session, NewDataset(name="chips", **fields), owner="ada").id

    return registered


@pytest.fixture
def uploaded(sessions: Sessions, settings: Settings, registered: Register) -> Callable[..., int]:
    """Puts an archive where the api does, whole, and registers it."""

    def uploaded(archive: bytes, filename: str = "chips.zip", **fields: Any) -> int:
        with sessions.begin() as session:
            new = NewUpload(filename=filename, size_bytes=len(archive))
            upload = uploads.start(session, new, owner="ada", most_open=5)
            uploads.advance(session, upload.id, offset=0, size_bytes=len(archive))
        path = settings.datasets / uploads.FOLDER / upload.id
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(archive)
        return registered(upload=upload.id, **fields)

    return uploaded


def write(folder: Path, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)


def row_of(sessions: Sessions, row_id: int) -> DatasetVersion:
    with sessions() as session:
        return session.get_one(DatasetVersion, row_id)


def test_a_version_of_arrays_becomes_ready_with_its_facts(
    validator: Validator, registered: Register, sessions: Sessions, settings: Settings
) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (100, 8, 8), np.uint8), np.arange(100) % 4
    np.savez(settings.home / "data" / "a.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    row_id = registered(source="a.npz", validation=0.2)
    assert validator.validate_one()
    row = row_of(sessions, row_id)
    assert (row.status, row.error, row.attempts, row.claimed_by) == ("ready", None, 1, None)
    assert row.facts == {
        "format": "arrays", "shape": [8, 8, 1], "classes": ["0", "1", "2", "3"],
        "class_counts": {"0": 25, "1": 25, "2": 25, "3": 25}, "samples": 100, "train": 80, "validation": 20,
        "test": 20, "split": 0.2, "damaged": 0, "damaged_files": [], "files": 1,
        "bytes": (settings.home / "data" / "a.npz").stat().st_size,
    }  # fmt: skip
    assert not validator.validate_one()


def test_an_upload_becomes_a_dataset_and_its_archive_goes(
    validator: Validator, uploaded: Register, sessions: Sessions, settings: Settings
) -> None:
    archive = zip_of(chips(top="my chips/"))
    row_id = uploaded(archive)
    assert validator.validate_one()
    row = row_of(sessions, row_id)
    assert (row.status, row.error, row.source) == ("ready", None, "chips/1")
    assert row.facts is not None
    assert (row.facts["classes"], row.facts["samples"], row.facts["format"]) == (["cracked", "whole"], 12, "images")
    there = {str(path.relative_to(settings.datasets)) for path in settings.datasets.rglob("*") if path.is_file()}
    assert there == {f"chips/1/{name}" for name in chips()}
    with sessions() as session:
        assert session.scalars(select(Upload.removed_at)).one() is not None


def test_equal_files_have_equal_fingerprints_and_different_files_have_others(
    validator: Validator, registered: Register, uploaded: Register, sessions: Sessions, settings: Settings
) -> None:
    data, files = settings.home / "data", chips(2)
    write(data / "one", files)
    write(data / "two", dict(reversed(files.items())) | {".hidden": b"x"})
    changed = files | {"whole/1.png": files["whole/0.png"]}
    write(data / "three", changed)
    renamed = {name.replace("whole/1", "whole/7"): content for name, content in files.items()}
    write(data / "four", renamed)
    pixels = np.zeros((20, 8, 8), np.uint8)
    for name, pixel in (("five.npz", 0), ("six.npz", 1)):
        pixels[7, 7, 7] = pixel
        np.savez(data / name, x=pixels, y=np.arange(20) % 2)
    assert (data / "five.npz").stat().st_size == (data / "six.npz").stat().st_size
    names = ("one", "two", "three", "four", "five.npz", "six.npz")
    ids = [registered(source=name) for name in names] + [uploaded(tar_of(files))]
    while validator.validate_one():
        pass
    one, two, three, four, five, six, seven = (row_of(sessions, row_id).fingerprint for row_id in ids)
    assert one is not None
    assert (two, seven) == (one, one)
    assert None not in (five, six)
    assert len({one, three, four, five, six}) == 5


@pytest.mark.parametrize(
    ("make", "expected_error"),
    [
        (lambda folder: write(folder / "d", {"only/1.png": b"x"}), "damaged"),
        (lambda folder: np.savez(folder / "d.npz", x=np.array([{}], dtype=object), y=np.zeros(1)), "object"),
        (lambda folder: (folder / "d").mkdir(), "an empty folder"),
    ],
    ids=["damage", "pickles", "nothing"],
)
def test_data_that_cannot_be_trained_on_is_invalid_with_its_reason(
    make: Callable[[Path], None], expected_error: str, validator: Validator, registered: Register, sessions: Sessions,
    settings: Settings,
) -> None:  # fmt: skip
    data = settings.home / "data"
    make(data)
    row_id = registered(source=next(data.iterdir()).name)
    assert validator.validate_one()
    row = row_of(sessions, row_id)
    assert row.status == "invalid"
    assert expected_error in (row.error or "")


def test_a_refused_upload_leaves_only_its_archive(
    validator: Validator, uploaded: Register, sessions: Sessions, settings: Settings
) -> None:
    row_id = uploaded(zip_of({"cats/1.png": b"x", "../../slip": b"x"}))
    assert validator.validate_one()
    row = row_of(sessions, row_id)
    assert row.status == "invalid"
    assert "leads out" in (row.error or "")
    there = [path for path in settings.datasets.rglob("*") if path.is_file()]
    assert [path.parent.name for path in there] == [uploads.FOLDER]
    assert not (settings.home / "slip").exists()


def test_a_host_without_the_files_leaves_the_version_to_other_hosts(
    validator: Validator, registered: Register, sessions: Sessions, settings: Settings
) -> None:
    with sessions.begin() as session:
        for host in ("ha", "hb"):
            register(session, host, info={}, slots=[], address=None)
    row_id = registered(source="elsewhere")
    assert validator.validate_one()
    assert not validator.validate_one()
    row = row_of(sessions, row_id)
    assert (row.status, row.unseen_by, row.attempts) == ("validating", ["ha"], 0)
    other_validator = Validator(sessions, settings.model_copy(update={"host_name": "hb"}))
    assert other_validator.validate_one()
    assert not other_validator.validate_one()
    row = row_of(sessions, row_id)
    assert row.status == "invalid"
    assert "no host has 'elsewhere' below its data roots" in (row.error or "")


def test_a_version_is_invalid_after_three_attempts_without_a_result(
    validator: Validator, registered: Register, sessions: Sessions, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(settings.home / "data" / "d", chips(2))
    row_id = registered(source="d")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for attempt in (1, 2, 3):
        assert validator.validate_one()
        row = row_of(sessions, row_id)
        assert (row.status, row.attempts) == ("validating", attempt)
    assert not validator.validate_one()
    assert row_of(sessions, row_id).status == "invalid"


def test_too_little_memory_is_reported(registered: Register, sessions: Sessions, settings: Settings) -> None:
    np.savez_compressed(settings.home / "data" / "a.npz", x=np.zeros((200_000, 64, 64), np.uint8), y=np.zeros(200_000))
    row_id = registered(source="a.npz")
    little = settings.model_copy(update={"inspection_memory_gb": 0.7})
    assert Validator(sessions, little).validate_one()
    row = row_of(sessions, row_id)
    assert row.status == "invalid"
    assert "Unable to allocate" in (row.error or "")


@pytest.fixture
def silent_server() -> Iterator[str]:
    """A web server's address that takes connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connections: list[socket.socket] = []

        def hold() -> None:
            while True:
                try:
                    connections.append(server.accept()[0])
                except OSError:
                    return

        threading.Thread(target=hold, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"
        server.shutdown(socket.SHUT_RDWR)
        for connection in connections:
            connection.close()


_WORKER = """
import json, sys
from jobs.db.engine import engine_for, sessions_for
from jobs.runtime.settings import Settings
from worker.datasets.validator import Validator
settings = Settings(**json.loads(sys.argv[1]))
Validator(sessions_for(engine_for(settings.database_url)), settings).validate_one()
"""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_worker_ends_its_inspector_and_another_worker_takes_over(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str
) -> None:
    worker_settings = settings.model_dump(mode="json", include={"home", "database_url"}) | {"host_name": "hb"}
    worker_settings["data_roots"] = silent_server
    row_id = registered(source=f"{silent_server}/a.npz")
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, json.dumps(worker_settings)])
    try:
        until(lambda: row_of(sessions, row_id).claimed_by == "hb", what="the claim")
        (inspector,) = until(lambda: children_of(worker.pid), what="the process that looks")
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(120)
    until(lambda: not Path(f"/proc/{inspector}").exists(), what="the end of that process")
    mine = Validator(sessions, settings)
    assert not mine.validate_one()  # the claim of the dead worker still holds for a while
    with sessions.begin() as session:
        past = func.now() - timedelta(seconds=1)
        session.execute(update(DatasetVersion).values(claimed_until=past, source="d"))
    write(settings.home / "data" / "d", chips(2))
    assert mine.validate_one()
    row = row_of(sessions, row_id)
    assert (row.status, row.attempts) == ("ready", 2)


def test_a_lost_claim_writes_nothing(registered: Register, sessions: Sessions) -> None:
    row_id = registered(source="d")
    with sessions.begin() as session:
        first = validation.claim(session, "ha", for_s=-1)
        second = validation.claim(session, "hb", for_s=60)
        assert first is not None
        assert second is not None
        assert not validation.settle(session, first, error="too late")
        assert not validation.renew(session, first, for_s=60)
        assert not validation.release(session, first)
        assert validation.settle(session, second, error="because")
    assert row_of(sessions, row_id).error == "because"


def test_a_worker_that_stops_leaves_the_version_to_others(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str
) -> None:
    row_id = registered(source=f"{silent_server}/a.npz")
    validator = Validator(sessions, settings.model_copy(update={"data_roots": silent_server}))
    validator.start()
    until(lambda: row_of(sessions, row_id).claimed_by, what="the claim")
    validator.stop()
    validator.join(120)
    assert not validator.is_alive()
    row = row_of(sessions, row_id)
    assert (row.status, row.claimed_by, row.attempts) == ("validating", None, 0)


def test_an_inspection_has_a_time_limit(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str
) -> None:
    row_id = registered(source=f"{silent_server}/a.npz")
    hasty = settings.model_copy(update={"data_roots": silent_server, "inspection_timeout_s": 0.3})
    assert Validator(sessions, hasty).validate_one()
    assert "longer than 0.3 s" in (row_of(sessions, row_id).error or "")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("name", ["b.parquet", "deep/b.parquet", "idx/train-labels-idx1-ubyte", "images/cats/1.jpg"])
def test_a_named_pipe_in_a_folder_is_named_at_once(
    name: str, validator: Validator, registered: Register, sessions: Sessions, settings: Settings
) -> None:
    folder = settings.home / "data" / "d"
    (folder / name).parent.mkdir(parents=True)
    pq.write_table(pa.table({"label": [0, 1], "x": [1.0, 2.0]}), folder / "a.parquet")
    if "parquet" not in name:
        (folder / "a.parquet").unlink()
    os.mkfifo(folder / name)
    source = "d" if "idx" not in name else "d/idx"
    row_id = registered(source=source)
    assert validator.validate_one()
    assert row_of(sessions, row_id).error == f"'d/{name}' is a named pipe, not a file: remove it"


@pytest.fixture
def threads(sessions: Sessions, settings: Settings, silent_server: str) -> Iterator[list[Validator]]:
    """All validators of a host, running."""
    roots = f"{settings.data_roots}:{silent_server}"
    threads = validators_of(sessions, settings.model_copy(update={"data_roots": roots}))
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


def inspectors() -> list[psutil.Process]:
    """The processes that inspect data for the validators of this process."""
    children = psutil.Process().children()
    return [child for child in children if "trainer.inspection" in child.cmdline()]


@pytest.mark.usefixtures("threads")
def test_an_inspection_that_stands_still_holds_no_other(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str
) -> None:
    stuck_id = registered(source=f"{silent_server}/a.npz")
    (stuck,) = until(inspectors, what="the inspection")
    stuck.suspend()
    write(settings.home / "data" / "d", chips(2))
    other_ids = [registered(source="d") for _ in range(2)]
    until(lambda: {row_of(sessions, row_id).status for row_id in other_ids} == {"ready"}, what="the other versions")
    assert row_of(sessions, stuck_id).status == "validating"
    assert stuck.status() == psutil.STATUS_STOPPED


def test_data_that_is_too_large_for_the_other_threads_is_left_to_the_first(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str, threads: list[Validator]
) -> None:
    registered(source=f"{silent_server}/a.npz")
    (stuck,) = until(inspectors, what="the inspection")
    with zipfile.ZipFile(settings.home / "data" / "large.npz", "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (3 * 10**9,)})
    large_id = registered(source="large.npz")

    def is_left() -> bool:
        row = row_of(sessions, large_id)
        return threads[1].large_ids == {large_id} and (row.status, row.claimed_by, row.attempts) == (
            "validating",
            None,
            0,
        )

    until(is_left, what="the release by another thread")
    with sessions.begin() as session:
        versions.remove(session, versions.get_version(session, "chips", 1, to_change=True))
    stuck.kill()
    until(lambda: row_of(sessions, large_id).status == "invalid", what="the end of the validation by the first thread")
    assert "EOF: reading array data" in (row_of(sessions, large_id).error or "")


def test_unneeded_datasets_and_uploads_are_removed_and_the_rest_stays(
    validator: Validator, uploaded: Register, sessions: Sessions, settings: Settings
) -> None:
    first, second = uploaded(zip_of(chips(2))), uploaded(zip_of(chips(3)))
    while validator.validate_one():
        pass
    invalid_row = uploaded(zip_of({"a": b"x"}))  # invalid: it may be registered again
    assert validator.validate_one()
    strange = settings.datasets / "chips" / "99" / "mine"
    write(strange.parent, {"mine": b"x"})
    with sessions.begin() as session:
        versions.remove(session, versions.get_version(session, "chips", 1, to_change=True))
    old = OldDatasets(sessions, settings.datasets, keep_uploads_days=1)
    assert not old.remove_some()
    assert not (settings.datasets / "chips" / "1").exists()
    assert (settings.datasets / "chips" / "2").is_dir()
    assert strange.exists()  # no row is known of it
    archive = settings.datasets / uploads.FOLDER / (row_of(sessions, invalid_row).upload_id or "")
    assert archive.exists()
    with sessions.begin() as session:
        session.execute(update(Upload).values(touched_at=func.now() - timedelta(days=2)))
    assert not old.remove_some()
    assert not archive.exists()
    assert {row_of(sessions, row_id).status for row_id in (first, second)} == {"ready"}


def test_a_dataset_waits_for_space_and_is_ready_later(
    sessions: Sessions, settings: Settings, uploaded: Callable[..., int]
) -> None:
    with small_disk(settings.datasets, size_bytes=8 * 2**20) as disk:
        row_id = uploaded(zip_of(chips(5)))
        fill = fill_up(disk, but_bytes=20_000)
        without_floor = settings.model_copy(update={"min_free_gb": 0.0, "min_free_files": 0})
        names = use_up_files(disk)  # now unpacking fails in the middle
        Validator(sessions, without_floor).validate_one()
        row = row_of(sessions, row_id)
        assert (row.status, row.attempts) == ("validating", 0)
        assert row.error == "host ha has no space for it: it waits until there is"
        assert not Validator(sessions, settings).validate_one()  # below the floor it does not try
        assert row_of(sessions, row_id).attempts == 0
        shutil.rmtree(names)
        fill.unlink()
        assert Validator(sessions, settings).validate_one()
        row = row_of(sessions, row_id)
        assert (row.status, row.error) == ("ready", None)
