"""The clients fetch from a real api what is in the store."""

import hashlib
from pathlib import Path

from api.main import app_for
from hora import Client
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.api.copies.stored import note_checkpoint, put_artifacts, put_checkpoint
from tests.integration.api.starting_rows import TOKEN
from tests.servers import serving

FILES = {"model.pt": bytes(range(251)) * 10_000, ".metadata": b"hidden", 'rank 0/größe".bin': b"inner", "empty": b""}


def test_checkpoints_and_artifacts_are_fetched(
    store: Store, sessions: Sessions, job_id: str, configuration: Settings, tmp_path: Path
) -> None:
    for step in (10, 20):
        note_checkpoint(sessions, job_id, step, val_accuracy=step / 100)
        put_checkpoint(store, job_id, step, FILES)
    put_artifacts(store, job_id, {"a/model.keras": FILES["model.pt"]})
    with serving(app_for(configuration), configuration) as port, Client(f"http://127.0.0.1:{port}", TOKEN) as client:
        job = client.jobs.get(job_id)
        assert [(one.step, one.is_best) for one in job.checkpoints(page_size=1)] == [(20, True), (10, False)]
        assert next(client.jobs.checkpoints(job_id)).files[0].sha256 == hashlib.sha256(FILES["model.pt"]).hexdigest()
        saved = client.jobs.download_checkpoint(job_id, "best", tmp_path / "best")
        assert {str(path.relative_to(tmp_path / "best")): path.read_bytes() for path in saved} == FILES
        assert job.download("a/model.keras", tmp_path / "m").read_bytes() == FILES["model.pt"]
