"""What `make setup` reads of a machine and an environment, with a driver of the NVML stub, and what make then runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from set_up import UV, Step, environment_steps, gpu_steps
from set_up_gpu import WHEELS, Compiler, Plan, find_toolkit
from tests.nvml import build_stub

ROOT = Path(__file__).parents[2]
TENSORFLOWS = {"cpu": "tensorflow_cpu-2.18.1.dist-info", "gpu": "tensorflow-2.18.1.dist-info"}


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with what set-up reads, in which this test works. It has neither uv nor an environment."""
    for name in ("Makefile", "set_up.py", "set_up_gpu.py", "pyproject.toml", "requirements"):
        (tmp_path / name).symlink_to(ROOT / name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HORA_DEVICE", raising=False)
    monkeypatch.delenv("HOROVOD_CUDA_HOME", raising=False)
    return tmp_path


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the library of a driver 550.54.15, which has a card for each letter of NVML_STUB."""
    folder = tmp_path_factory.mktemp("driver")
    return build_stub(folder).parent


def hold(checkout: Path, kind: str) -> None:
    """Let the checkout's environment hold the TensorFlow of this kind, and be ready."""
    packages = checkout / ".venv/lib/python3.11/site-packages"
    shutil.rmtree(packages, ignore_errors=True)
    (packages / TENSORFLOWS[kind]).mkdir(parents=True)
    (packages / "tensorflow_io_gcs_filesystem-0.37.1.dist-info").mkdir()
    for path in (checkout / UV, checkout / ".venv/ready"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()


def set_up(checkout: Path, what: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run set_up.py as make does, with these variables."""
    argv = [sys.executable, "set_up.py", what]
    environment = {**os.environ, **variables}
    return subprocess.run(argv, cwd=checkout, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("what", ["uv", "environment"])
def test_a_driver_that_does_not_fit_is_refused_before_anything_is_installed(
    checkout: Path, driver: Path, what: str
) -> None:
    before = sorted(checkout.iterdir())
    done = set_up(checkout, what, HORA_DEVICE="gpu", LD_LIBRARY_PATH=str(driver), NVML_STUB="www", PATH="/bin")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("The NVIDIA driver 550.54.15 cannot run code from NVIDIA's wheels of CUDA 13.0.")
    assert sorted(checkout.iterdir()) == before


def test_an_environment_for_cpus_is_told_of_cards(checkout: Path, driver: Path) -> None:
    on_cards = {"LD_LIBRARY_PATH": str(driver), "NVML_STUB": "www", "PATH": "/bin"}
    assert set_up(checkout, "hint", **on_cards).stdout == ""
    hold(checkout, "cpu")
    told = set_up(checkout, "hint", **on_cards).stdout
    assert told.startswith("This machine has 3 NVIDIA cards, but .venv is for CPUs. The NVIDIA driver 550.54.15 cannot")
    assert told.count("\n") == 1
    toolkit = str(toolkit_in(checkout / "cuda", "12.5"))
    assert "`HORA_DEVICE=gpu make setup`" in set_up(checkout, "hint", **on_cards, HOROVOD_CUDA_HOME=toolkit).stdout
    for other in ({"HORA_DEVICE": "cpu"}, {"NVML_STUB": ""}, {"LD_LIBRARY_PATH": ""}):
        assert set_up(checkout, "hint", **on_cards | other).stdout == ""
    hold(checkout, "gpu")
    assert set_up(checkout, "hint", **on_cards).stdout == ""


def toolkit_in(folder: Path, version: str) -> Path:
    """A folder with an nvcc that prints what NVIDIA's prints."""
    nvcc = folder / "bin/nvcc"
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(f"#!/bin/sh\necho 'Cuda compilation tools, release {version}, V{version}.82'\n")
    nvcc.chmod(0o755)
    return folder


def test_the_toolkit_is_found_by_its_folder_or_by_nvcc_on_the_path(tmp_path: Path) -> None:
    new, fitting = toolkit_in(tmp_path / "new", "13.1"), toolkit_in(tmp_path / "fitting", "12.5")
    (tmp_path / "link").symlink_to(fitting / "bin/nvcc")
    assert find_toolkit({"HOROVOD_CUDA_HOME": str(new), "PATH": str(fitting / "bin")}) == Compiler("13.1", str(new))
    assert find_toolkit({"PATH": str(fitting / "bin")}) == Compiler("12.5", str(fitting))
    assert find_toolkit({"PATH": str(new / "bin")}) is None
    assert find_toolkit({"HOROVOD_CUDA_HOME": str(tmp_path), "PATH": ""}) == Compiler("", str(tmp_path))


@pytest.mark.parametrize(
    ("held", "device", "is_ready"),
    [
        ("cpu", "auto", True), ("cpu", "gpu", False), ("cpu", "wrong", False),
        ("gpu", "", True), ("gpu", "gpu", True), ("gpu", "cpu", False),
    ],
)  # fmt: skip
def test_make_sets_an_environment_up_again_only_for_another_device(
    checkout: Path, held: str, device: str, is_ready: bool
) -> None:
    hold(checkout, held)
    argv = ["make", "--dry-run", f"PYTHON={sys.executable}", ".venv/ready"]
    environment = {**os.environ, "HORA_DEVICE": device}
    done = subprocess.run(argv, cwd=checkout, env=environment, capture_output=True, text=True, check=True)
    assert ("set_up.py environment" in done.stdout) is not is_ready


def commands(steps: list[Step]) -> list[list[str]]:
    """The commands of all steps."""
    return [list(argv) for step in steps for argv in step.commands]


@pytest.mark.parametrize(
    ("held", "wanted", "option"),
    [(None, "gpu", "--allow-existing"), ("cpu", "cpu", "--allow-existing"), ("cpu", "gpu", "--clear")],
)
def test_an_environment_of_the_other_kind_is_emptied_first(
    checkout: Path, held: str | None, wanted: str, option: str
) -> None:
    if held:
        hold(checkout, held)
    plan = Plan("gpu", WHEELS) if wanted == "gpu" else Plan("cpu")
    make_venv, *rest = commands(environment_steps(plan))
    assert make_venv == [UV, "venv", option, "--python", sys.executable, ".venv"]
    files = {argument for argv in rest for argument in argv if argument.startswith("requirements/dev")}
    assert files == {"requirements/dev-gpu.txt" if wanted == "gpu" else "requirements/dev.txt"}


def test_compiler_wheels_are_installed_beside_the_environment_and_only_without_a_toolkit(checkout: Path) -> None:
    installing, filling = gpu_steps(".venv", "requirements/dev-gpu.txt", WHEELS)
    assert list(installing.commands[1][-2:]) == ["requirements/nccl.txt", "requirements/nvcc.txt"]
    assert "requirements/nvcc.txt" not in filling.commands[0]
    assert filling.variables["HOROVOD_CUDA_HOME"].startswith(str(checkout / ".cuda/"))
    toolkit = Compiler("12.5", "/usr/local/cuda")
    with_toolkit = gpu_steps(".venv", "requirements/dev-gpu.txt", toolkit)
    assert not any("nvcc" in argument for argv in commands(with_toolkit) for argument in argv)
    assert with_toolkit[1].variables["HOROVOD_CUDA_HOME"] == "/usr/local/cuda"
    # uv must not take a Horovod that another compiler made.
    assert "horovod:cuda=13.0-75,80,86,89,90,100,120" in filling.commands[0]
    assert "horovod:cuda=12.5-60,70,75,80,86,89,90" in with_toolkit[1].commands[0]
