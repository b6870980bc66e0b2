"""A job that left artifacts."""

from collections.abc import Callable
from pathlib import Path

import pytest

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.archives import write_files
from tests.integration.api.starting_rows import TOKEN, an_attempt

NETWORK = bytes(range(256)) * 4096  # 1 MiB: more than one piece


@pytest.fixture
def configuration(database: str, tmp_path: Path) -> Settings:
    return Settings(
        database_url=database, broker_url="memory://", token=TOKEN, home=tmp_path / "home", host_name="here"
    )


@pytest.fixture
def runs(configuration: Settings) -> Path:
    return configuration.runs_dir


@pytest.fixture
def job_id(submit_job: Callable[..., str], sessions: Sessions, runs: Path) -> str:
    """A job that ran on host `ha` and left artifacts. Other files lie beside them."""
    job_id = submit_job()
    an_attempt(sessions, job_id)
    folder = runs / job_id / "artifacts"
    files = {
        "model.keras": NETWORK, "classes.json": b'["0", "1"]' + 2000 * b" ", "größe%.html": b"<script>",
        "tensorboard/train/events.out.tfevents.1": b"events",
    }  # fmt: skip
    write_files(folder, files)
    write_files(runs, {f"{job_id}/checkpoints/epoch-1.h5": b"TOP SECRET", "secret.txt": b"TOP SECRET"})
    (folder / "link.txt").symlink_to(runs / "secret.txt")
    return job_id


def path_of(job_id: str, path: str = "") -> str:
    return f"/v1/jobs/{job_id}/artifacts" + (f"/{path}" if path else "")
