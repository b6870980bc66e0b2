"""docker-compose.yml in docker or podman, where one of them is: a new stack serves the page and trains a job."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.compose.stack import NoEngine, find_compose

pytestmark = [pytest.mark.long("releases"), pytest.mark.timeout(3600)]  # the first build compiles Horovod

ROOT = Path(__file__).parents[2]


def test_containers_serve_the_page_and_train_a_job(tmp_path: Path) -> None:
    try:
        find_compose(tmp_path / "podman-compose")
    except NoEngine as error:
        pytest.skip(str(error))
    argv = [sys.executable, "-m", "tests.compose"]
    done = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
