"""Versions of datasets, validated by real processes: what becomes of new ones, and why; and when old ones go."""

import io
import zipfile
from datetime import timedelta

import numpy as np
from PIL import Image
from sqlalchemy import func, select, update

from jobs.data import samples, uploads, versions
from jobs.db.tables import DatasetVersion, Upload
from tests.archives import chips, tar_of, write_files, zip_of
from tests.full_disks import make_read_only, small_disk
from tests.integration.jobs.writing import change
from tests.integration.worker.datasets.dataset_rows import Desk
from worker.datasets.folders import OldDatasets


def test_a_version_of_arrays_becomes_ready_with_its_facts(desk: Desk) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.integers(0, 256, (100, 8, 8), np.uint8), np.arange(100) % 4
    np.savez(desk.data / "a.npz", x_train=x, y_train=y, x_test=x[:20], y_test=y[:20])
    row_id = desk.register(source="a.npz", validation=0.2)
    assert desk.validate()
    row = desk.row(row_id)
    assert (row.status, row.error, row.attempts, row.claimed_by) == ("ready", None, 1, None)
    assert row.facts == {
        "format": "arrays", "task": "classification", "shape": [8, 8, 1], "classes": ["0", "1", "2", "3"],
        "targets": 0, "class_counts": {"0": 25, "1": 25, "2": 25, "3": 25}, "samples": 100, "train": 80,
        "validation": 20, "test": 20, "split": 0.2, "damaged": 0, "damaged_files": [], "files": 1,
        "warnings": [], "bytes": (desk.data / "a.npz").stat().st_size,
    }  # fmt: skip
    with desk.sessions() as session:
        labels = [label for _, label in samples.labels_of(session, row_id)]
        image = Image.open(io.BytesIO(samples.png_of(session, row_id, 0)))
    assert sorted(labels) == sorted(["0", "1", "2", "3"] * 3)
    assert (image.format, image.size) == ("PNG", (8, 8))
    assert not desk.validate()


def test_an_upload_becomes_a_dataset_and_its_archive_goes(desk: Desk) -> None:
    archive = zip_of(chips(top="my chips/"))
    row_id = desk.upload(archive)
    assert desk.validate()
    row = desk.row(row_id)
    assert (row.status, row.error, row.source) == ("ready", None, "chips/1")
    assert row.facts is not None
    assert (row.facts["classes"], row.facts["samples"], row.facts["format"]) == (["cracked", "whole"], 12, "images")
    folder = desk.settings.datasets
    there = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert there == {f"chips/1/{name}" for name in chips()}
    with desk.sessions() as session:
        assert session.scalars(select(Upload.removed_at)).one() is not None


def test_a_folder_and_an_upload_of_equal_files_have_equal_fingerprints(desk: Desk) -> None:
    """What else changes a fingerprint: `tests/unit/trainer/test_trainer_data_fingerprint.py`."""
    files = chips(2)
    write_files(desk.data / "one", files)
    ids = [desk.register(source="one"), desk.upload(tar_of(dict(reversed(files.items()))))]
    while desk.validate():
        pass
    one, other = (desk.row(row_id).fingerprint for row_id in ids)
    assert one == other is not None


def test_too_little_memory_is_reported(desk: Desk) -> None:
    np.savez(desk.data / "a.npz", y=np.zeros(200_000))
    with zipfile.ZipFile(desk.data / "a.npz", "a") as archive, archive.open("x.npy", "w") as member:
        large = {"descr": "|u1", "fortran_order": False, "shape": (200_000, 64, 64)}
        np.lib.format.write_array_header_1_0(member, large)  # nothing of it is stored
    row_id = desk.register(source="a.npz")
    assert desk.another(inspection_memory_gb=0.7).validate_one()
    row = desk.row(row_id)
    assert row.status == "invalid"
    assert "Unable to allocate" in (row.error or "")


def test_an_inspection_has_a_time_limit(desk: Desk, silent_server: str) -> None:
    row_id = desk.register(source=f"{silent_server}/a.npz")
    assert desk.another(data_roots=silent_server, inspection_timeout_s=0.3).validate_one()
    assert "longer than 0.3 s" in (desk.row(row_id).error or "")


def test_only_what_is_a_sample_is_stored_and_only_once(desk: Desk) -> None:
    row_id = desk.register(source="a.npz")
    good = {"label": "a\0b", "height": 1, "width": 1, "channels": 1, "pixels": "AA=="}
    told = {"samples": [*[{**good, "label": str(number)} for number in range(100)], {**good, "width": 65}, "x", None]}
    with desk.sessions.begin() as session:
        assert samples.store(session, row_id, told) == 0  # not ready
        session.execute(update(DatasetVersion).where(DatasetVersion.id == row_id).values(status="ready"))
    with desk.sessions.begin() as session:
        assert samples.store(session, row_id, {"samples": "none"}) == 0
        assert samples.store(session, row_id, {"samples": [{**good, "pixels": "AAAA"}, good]}) == 1
    with desk.sessions.begin() as session:
        assert samples.store(session, row_id, told) == 0
        samples.remove(session, row_id)
        assert samples.store(session, row_id, told) == samples.MOST


def test_unneeded_datasets_and_uploads_are_removed_and_the_rest_stays(desk: Desk) -> None:
    first, second = desk.upload(zip_of(chips(2))), desk.upload(zip_of(chips(3)))
    while desk.validate():
        pass
    invalid_row = desk.upload(zip_of({"cats/1.png": b"x", "../../slip": b"x"}))  # it may be registered again
    assert desk.validate()
    assert (desk.row(invalid_row).status, "leads out" in str(desk.row(invalid_row).error)) == ("invalid", True)
    assert not list(desk.settings.datasets.glob(".unpacking/*"))
    assert not (desk.settings.home / "slip").exists()
    strange = desk.settings.datasets / "chips" / "99" / "mine"
    write_files(strange.parent, {"mine": b"x"})
    with desk.sessions.begin() as session:
        versions.remove(session, versions.get_version(session, "chips", 1, to_change=True))
    old = OldDatasets(desk.sessions, desk.settings.model_copy(update={"keep_uploads_days": 1}))
    assert not old.remove_some()
    assert not (desk.settings.datasets / "chips" / "1").exists()
    assert (desk.settings.datasets / "chips" / "2").is_dir()
    assert strange.exists()  # no row is known of it
    archive = desk.settings.datasets / uploads.FOLDER / (desk.row(invalid_row).upload_id or "")
    assert archive.exists()
    change(desk.sessions, update(Upload).values(touched_at=func.now() - timedelta(days=2)))
    assert not old.remove_some()
    assert not archive.exists()
    assert {desk.row(row_id).status for row_id in (first, second)} == {"ready"}


def test_an_archive_on_a_read_only_disk_ends_no_pass(desk: Desk) -> None:
    with small_disk(desk.settings.datasets) as disk:
        upload_id = desk.row(desk.upload(zip_of({"a": b"x"}))).upload_id or ""
        change(desk.sessions, update(Upload).values(touched_at=func.now() - timedelta(days=2), removed_at=func.now()))
        make_read_only(disk)
        assert not OldDatasets(desk.sessions, desk.settings.model_copy(update={"keep_uploads_days": 1})).remove_some()
        assert (disk / uploads.FOLDER / upload_id).exists()
