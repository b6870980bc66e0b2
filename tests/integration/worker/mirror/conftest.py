"""MLflow's own server, a mirror that copies to it, and the runs on the server."""

import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from uuid import uuid4

import pytest

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.integration.worker.mirror.training import Site
from tests.peers import peer


@pytest.fixture(scope="session")
def mlflow_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of MLflow's own server."""
    folder = tmp_path_factory.mktemp("mlflow")
    argv = [str(peer("python")), str(Path(__file__).with_name("tracking_server.py")), str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(argv, **pipes) as process:
        assert process.stdout is not None
        port = process.stdout.readline().decode().strip()
        assert port, "MLflow did not start"
        yield f"http://127.0.0.1:{port}"
        process.kill()


@pytest.fixture
def configuration(mlflow_url: str) -> Settings:
    """Settings with an experiment of the test's own."""
    return Settings(mlflow_url=mlflow_url, mlflow_experiment=uuid4().hex)


@pytest.fixture
def site(sessions: Sessions, configuration: Settings) -> Iterator[Site]:
    with closing(Site(sessions, configuration)) as site:
        yield site
