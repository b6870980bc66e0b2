"""The removal of datasets and uploads that nobody needs."""

from datetime import timedelta

from sqlalchemy import func, update

from jobs.data import uploads, versions
from jobs.db.engine import Sessions
from jobs.db.tables import Upload
from jobs.runtime.settings import Settings
from tests.archives import chips, zip_of
from tests.full_disks import make_read_only, small_disk
from tests.integration.worker.datasets.dataset_rows import Register, row_of, write
from worker.datasets.folders import OldDatasets
from worker.datasets.validator import Validator


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
    old = OldDatasets(sessions, settings.model_copy(update={"keep_uploads_days": 1}))
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


def test_an_archive_on_a_read_only_disk_ends_no_pass(
    uploaded: Register, sessions: Sessions, settings: Settings
) -> None:
    with small_disk(settings.datasets) as disk:
        upload_id = row_of(sessions, uploaded(zip_of({"a": b"x"}))).upload_id or ""
        with sessions.begin() as session:
            session.execute(update(Upload).values(touched_at=func.now() - timedelta(days=2), removed_at=func.now()))
        make_read_only(disk)
        assert not OldDatasets(sessions, settings.model_copy(update={"keep_uploads_days": 1})).remove_some()
        assert (disk / uploads.FOLDER / upload_id).exists()
