"""What goes when it is not needed any more: datasets from hosts, and pieces of uploads from the store."""

from datetime import timedelta

from sqlalchemy import func, select, update

from jobs.data import uploads
from jobs.db.tables import DatasetVersion, Job, UploadPiece
from tests.integration.worker.datasets.dataset_rows import row_of
from tests.integration.worker.datasets.stored.stored_site import Site, fetch_until, files_in
from worker.datasets.fetcher import DatasetFetcher
from worker.datasets.folders import OldDatasets


def test_a_version_that_no_job_needed_for_long_goes_and_comes_back(site: Site, fetcher: DatasetFetcher) -> None:
    version_id = site.validated()
    lease = site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset")
    old = OldDatasets(site.sessions, site.hb)
    with site.sessions.begin() as session:
        long_ago = func.now() - timedelta(days=site.hb.keep_files_days + 1)
        session.execute(update(DatasetVersion).values(validated_at=long_ago))
    old.remove_some()
    assert site.is_at("hb")
    site.end(lease)
    old.remove_some()
    assert site.is_at("hb"), "it was used a moment ago"
    with site.sessions.begin() as session:
        session.execute(update(Job).values(ended_at=long_ago))
    old.remove_some()
    assert site.at("hb") is None
    assert files_in(site.hb.datasets) == {}
    assert files_in(site.ha.datasets)
    OldDatasets(site.sessions, site.ha).remove_some()
    assert files_in(site.ha.datasets) == {}, "each host removes its own files"
    site.attempt("hb")
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset again")
    assert row_of(site.sessions, version_id).status == "ready"


def test_pieces_go_when_nothing_is_made_of_them_any_more(site: Site, fetcher: DatasetFetcher) -> None:
    site.validated()
    site.store.write("uploads/0of0another0stack/1", b"x")
    site.store.write("uploads/other", b"x")
    lease = site.attempt("hb")
    site.remove_old()
    with site.sessions.begin() as session:
        session.execute(update(DatasetVersion).values(deleted_at=func.now()))
    site.remove_old()
    fetch_until(fetcher, lambda: site.is_at("hb"), "the dataset of a job that goes on")
    site.end(lease)
    site.remove_old()
    assert [file.key for file in site.store.files("uploads")] == ["uploads/0of0another0stack/1", "uploads/other"]
    with site.sessions() as session:
        assert session.scalars(select(UploadPiece.start)).all() == []


def test_a_piece_that_comes_after_its_upload_was_removed_goes_too(site: Site) -> None:
    version_id = site.upload()
    with site.sessions.begin() as session:
        upload_id = session.get_one(DatasetVersion, version_id).upload_id
        session.execute(update(DatasetVersion).values(deleted_at=func.now()))
        uploads.mark_removed(session, str(upload_id))
    site.remove_old()
    late = f"uploads/{upload_id}/late"
    site.store.write(late, b"x")
    site.remove_old()
    assert site.store.files("uploads") == []
