"""The package without extras, in an environment of its own: the command line and the client, as on a laptop."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from uv import find_uv_bin

from hora.stack.control import Stack

ROOT = Path(__file__).parents[3]
OF_THE_SERVICE = {
    "alembic", "celery", "fastapi", "fsspec", "horovod", "keras", "numpy", "psycopg", "psycopg-binary", "pyarrow",
    "pydantic-settings", "redis", "s3fs", "sqlalchemy", "structlog", "tensorflow", "tensorflow-cpu", "uvicorn",
}  # fmt: skip
SUBMIT = """
from hora import Client

with Client() as client:
    job = client.jobs.submit(dataset="digits", epochs=1, gpus=2, labels={"from": "a laptop"})
    assert client.jobs.get(job.id).spec["labels"] == {"from": "a laptop"}
    print(job.cancel().wait(timeout_s=120).status)
"""
IMPORT_ALL = """
import importlib, pkgutil, hora

for module in pkgutil.walk_packages(hora.__path__, "hora."):
    if not module.name.startswith("hora.stack.") and module.name != "hora.__main__":
        importlib.import_module(module.name)
"""


@pytest.fixture(scope="module")
def laptop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an environment that has the wheel of this tree, without the pages, and what the wheel needs."""
    folder = tmp_path_factory.mktemp("laptop")
    build = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(build, cwd=ROOT, env=os.environ | {"HATCH_BUILD_NO_HOOKS": "true"}, check=True)
    (wheel,) = folder.glob("*.whl")
    uv, python = find_uv_bin(), str(folder / "env")
    subprocess.run([uv, "venv", "--quiet", "--python", sys.executable, python], check=True)
    install = ["pip", "install", "--quiet", "--python", python, "--constraints", ROOT / "requirements/dev.txt", wheel]
    subprocess.run([uv, *install], check=True)
    return folder


def run(laptop: Path, program: str, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program of that environment, in a home of its own."""
    environment = {"PATH": os.defpath, "HOME": str(laptop), "HORA_HOME": str(laptop / "hora"), **variables}
    argv = [str(laptop / "env/bin" / program), *arguments]
    return subprocess.run(argv, cwd=laptop, env=environment, capture_output=True, text=True, check=False)


def test_nothing_of_the_service_is_installed(laptop: Path) -> None:
    listed = subprocess.run(
        [find_uv_bin(), "pip", "freeze", "--python", str(laptop / "env")], capture_output=True, text=True, check=True
    )
    names = {line.partition("==")[0].partition(" @ ")[0] for line in listed.stdout.splitlines()}
    assert "hora" in names
    assert names & OF_THE_SERVICE == set()
    assert run(laptop, "python", "-c", IMPORT_ALL).stderr == ""


def test_the_command_line_and_the_client_work(laptop: Path, stack: Stack) -> None:
    service = {"HORA_URL": stack.url, "HORA_TOKEN": stack.token}
    helped = run(laptop, "hora", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    submitted = run(laptop, "python", "-c", SUBMIT, **service)
    assert (submitted.stderr, submitted.stdout) == ("", "cancelled\n")
    listed = run(laptop, "hora", "ls", "--label", "from:a laptop", **service)
    assert (listed.returncode, listed.stderr) == (0, "")
    assert "cancelled" in listed.stdout
    examined = run(laptop, "hora", "doctor", **service)
    assert examined.returncode == 0, examined.stdout
    assert "it has the client alone" in examined.stdout


@pytest.mark.parametrize(
    ("arguments", "extras"),
    [
        (["up", "-d"], "api,worker,embedded"),
        (["down"], "service"),
        (["export", "--slurm", str(ROOT / "examples/digits.yaml")], "worker"),
    ],
)
def test_a_command_of_the_service_says_what_to_install(laptop: Path, arguments: list[str], extras: str) -> None:
    refused = run(laptop, "hora", *arguments)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert f"pip install 'hora[{extras}]'" in refused.stderr
