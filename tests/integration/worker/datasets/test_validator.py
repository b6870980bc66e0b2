"""New versions of datasets, validated by real processes: what becomes of them, and why."""

import io

import numpy as np
from PIL import Image
from sqlalchemy import select, update

from jobs.data import samples, uploads
from jobs.db.engine import Sessions
from jobs.db.tables import DatasetVersion, Upload
from jobs.runtime.settings import Settings
from tests.archives import chips, tar_of, zip_of
from tests.integration.worker.datasets.dataset_rows import Register, row_of, write
from worker.datasets.validator import Validator


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
        "format": "arrays", "task": "classification", "shape": [8, 8, 1], "classes": ["0", "1", "2", "3"],
        "targets": 0, "class_counts": {"0": 25, "1": 25, "2": 25, "3": 25}, "samples": 100, "train": 80,
        "validation": 20, "test": 20, "split": 0.2, "damaged": 0, "damaged_files": [], "files": 1,
        "bytes": (settings.home / "data" / "a.npz").stat().st_size,
    }  # fmt: skip
    with sessions() as session:
        labels = [label for _, label in samples.labels_of(session, row_id)]
        image = Image.open(io.BytesIO(samples.png_of(session, row_id, 0)))
    assert sorted(labels) == sorted(["0", "1", "2", "3"] * 3)
    assert (image.format, image.size) == ("PNG", (8, 8))
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


def test_data_that_cannot_be_trained_on_is_invalid_with_its_reason(
    validator: Validator, registered: Register, sessions: Sessions, settings: Settings
) -> None:
    data = settings.home / "data"
    write(data / "damaged", {"only/1.png": b"x"})
    np.savez(data / "object.npz", x=np.array([{}], dtype=object), y=np.zeros(1))  # pickles
    for source, expected_error in (("damaged", "damaged"), ("object.npz", "object")):
        row_id = registered(source=source)
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


def test_too_little_memory_is_reported(registered: Register, sessions: Sessions, settings: Settings) -> None:
    np.savez_compressed(settings.home / "data" / "a.npz", x=np.zeros((200_000, 64, 64), np.uint8), y=np.zeros(200_000))
    row_id = registered(source="a.npz")
    little = settings.model_copy(update={"inspection_memory_gb": 0.7})
    assert Validator(sessions, little).validate_one()
    row = row_of(sessions, row_id)
    assert row.status == "invalid"
    assert "Unable to allocate" in (row.error or "")


def test_an_inspection_has_a_time_limit(
    registered: Register, sessions: Sessions, settings: Settings, silent_server: str
) -> None:
    row_id = registered(source=f"{silent_server}/a.npz")
    hasty = settings.model_copy(update={"data_roots": silent_server, "inspection_timeout_s": 0.3})
    assert Validator(sessions, hasty).validate_one()
    assert "longer than 0.3 s" in (row_of(sessions, row_id).error or "")


def test_only_what_is_a_sample_is_stored_and_only_once(registered: Register, sessions: Sessions) -> None:
    row_id = registered(source="a.npz")
    good = {"label": "a\0b", "height": 1, "width": 1, "channels": 1, "pixels": "AA=="}
    told = {"samples": [*[{**good, "label": str(number)} for number in range(100)], {**good, "width": 65}, "x", None]}
    with sessions.begin() as session:
        assert samples.store(session, row_id, told) == 0  # not ready
        session.execute(update(DatasetVersion).where(DatasetVersion.id == row_id).values(status="ready"))
    with sessions.begin() as session:
        assert samples.store(session, row_id, {"samples": "none"}) == 0
        assert samples.store(session, row_id, {"samples": [{**good, "pixels": "AAAA"}, good]}) == 1
    with sessions.begin() as session:
        assert samples.store(session, row_id, told) == 0
        samples.remove(session, row_id)
        assert samples.store(session, row_id, told) == samples.MOST
