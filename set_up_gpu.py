"""Decides for which device a checkout is set up, and with which CUDA compiler. `set_up.py` calls it.

NVIDIA's driver says how many cards there are, and its version says which CUDA it can run. Only the standard library is
used, because nothing is installed yet.
"""

import ctypes
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

Kind = Literal["cpu", "gpu"]

# The oldest driver for each CUDA, https://docs.nvidia.com/deploy/cuda-compatibility
OLDEST_DRIVERS = {12: 525, 13: 580}
# The compute capabilities that Horovod's kernels are compiled for. The newest one's code also runs on later cards.
ARCHITECTURES = {12: "60,70,75,80,86,89,90", 13: "75,80,86,89,90,100,120"}
TENSORFLOWS_CUDA = 12  # of the libraries that tensorflow[and-cuda] 2.18.1 brings
_TOOLKIT_HINT = "the CUDA 12.5 toolkit (found as HOROVOD_CUDA_HOME, /usr/local/cuda or `nvcc` on PATH)"


class Refused(Exception):
    """This machine cannot be set up as asked. The text is a sentence that says what to do."""


@dataclass(frozen=True)
class Driver:
    """NVIDIA's driver, and how many cards it drives."""

    cards: int
    version: str  # such as 550.54.15


@dataclass(frozen=True)
class Compiler:
    """A CUDA compiler: a toolkit of the machine, or NVIDIA's wheels."""

    version: str  # of CUDA, such as 12.5; empty if the folder has no compiler
    home: str | None = None  # the toolkit's folder; None for the wheels

    @property
    def major(self) -> int:
        """The CUDA that compiled code needs of the driver."""
        return int(self.version.partition(".")[0] or 0)

    def __str__(self) -> str:
        return f"NVIDIA's wheels of CUDA {self.version}" if self.home is None else f"CUDA {self.version} in {self.home}"


WHEELS = Compiler("13.0")  # requirements/nvcc.in


@dataclass(frozen=True)
class Plan:
    """What an environment is filled with."""

    kind: Kind
    compiler: Compiler | None = None  # for Horovod with NCCL
    hint: str = ""  # why it is not for the cards of this machine


def plan_for(device: str, *, held: Kind | None, driver: Driver | None, toolkit: Compiler | None) -> Plan:
    """The plan for an environment that holds `held` now, with HORA_DEVICE as `device`. Raises `Refused`."""
    if device not in ("", "auto", "gpu", "cpu"):
        raise Refused(f"HORA_DEVICE is {device!r}. It can be auto, gpu or cpu.")
    if driver is not None and driver.cards == 0:
        driver = None
    if device == "gpu" or (device != "cpu" and held == "gpu"):
        return Plan("gpu", compiler_for(driver, toolkit))
    if device == "cpu" or driver is None:
        return Plan("cpu")
    cards = f"This machine has {driver.cards} NVIDIA card{'s' if driver.cards > 1 else ''}, but .venv is for CPUs"
    try:
        compiler = compiler_for(driver, toolkit)
    except Refused as why:
        return Plan("cpu", hint=f"{cards}. {why} Then run `HORA_DEVICE=gpu make setup`.")
    if held == "cpu":
        return Plan("cpu", hint=f"{cards}. `HORA_DEVICE=gpu make setup` replaces it.")
    return Plan("gpu", compiler)


def compiler_for(driver: Driver | None, toolkit: Compiler | None) -> Compiler:
    """The machine's toolkit, or else the wheels. Without a card no driver is needed. Raises `Refused`."""
    compiler = toolkit or WHEELS
    if compiler.major not in OLDEST_DRIVERS:
        there = f"has CUDA {compiler.version}" if compiler.version else "has no bin/nvcc that runs"
        raise Refused(f"HOROVOD_CUDA_HOME is {compiler.home}, which {there}. Horovod needs CUDA 12 or 13 there.")
    if driver is None:
        return compiler
    major_version = int(re.match(r"\d*", driver.version)[0] or 0)  # type: ignore[index]
    newest = OLDEST_DRIVERS[WHEELS.major]
    if major_version < OLDEST_DRIVERS[TENSORFLOWS_CUDA]:
        raise Refused(
            f"The NVIDIA driver {driver.version} cannot run CUDA {TENSORFLOWS_CUDA}, which TensorFlow needs. "
            f"Update the driver to {newest} or newer."
        )
    if major_version < OLDEST_DRIVERS[compiler.major]:
        raise Refused(
            f"The NVIDIA driver {driver.version} cannot run code from {compiler}. "
            f"Update the driver to {newest} or newer, or install {_TOOLKIT_HINT}."
        )
    return compiler


def build_variables(compiler: Compiler, nvidia: Path, variables: Mapping[str, str]) -> dict[str, str]:
    """What Horovod's build reads. `nvidia` is the folder of NVIDIA's wheels, `variables` may name architectures."""
    return {
        "HOROVOD_CUDA_HOME": compiler.home or str(nvidia / "cu13"),
        "HOROVOD_NCCL_HOME": str(nvidia / "nccl"),
        "HOROVOD_NCCL_LINK": "SHARED",
        "HOROVOD_BUILD_CUDA_CC_LIST": architectures(compiler, variables),
        # NCCL is a package beside Horovod. CUDA's runtime library is linked statically.
        "LDFLAGS": "-Wl,-rpath,$ORIGIN/../../nvidia/nccl/lib",
    }


def architectures(compiler: Compiler, variables: Mapping[str, str]) -> str:
    """The compute capabilities to compile for, such as 80,90."""
    return variables.get("HOROVOD_BUILD_CUDA_CC_LIST") or ARCHITECTURES[compiler.major]


def held_kind(venv: Path) -> Kind | None:
    """The kind of an environment, from the TensorFlow that it holds."""
    if any(venv.glob("lib/python3*/site-packages/tensorflow_cpu-*.dist-info")):
        return "cpu"
    return "gpu" if any(venv.glob("lib/python3*/site-packages/tensorflow-*.dist-info")) else None


def read_driver() -> Driver | None:
    """Ask the driver's library. None if there is no driver, or it does not answer."""
    count, version = ctypes.c_uint(), ctypes.create_string_buffer(80)
    try:
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        failed = (
            nvml.nvmlInitWithFlags(0)
            or nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
            or nvml.nvmlSystemGetDriverVersion(version, len(version))
        )
    except (OSError, AttributeError):  # no such library, or an old one without these functions
        return None
    return None if failed else Driver(count.value, version.value.decode(errors="replace"))


def find_toolkit(variables: Mapping[str, str]) -> Compiler | None:
    """The CUDA toolkit of this machine: the one in HOROVOD_CUDA_HOME, whatever it is, or one that fits TensorFlow."""
    if named := variables.get("HOROVOD_CUDA_HOME"):
        return Compiler(_version_in(Path(named)), named)
    on_path = shutil.which("nvcc", path=variables.get("PATH"))
    for folder in (Path("/usr/local/cuda"), *([Path(on_path).resolve().parents[1]] if on_path else [])):
        toolkit = Compiler(_version_in(folder), str(folder))
        if toolkit.major == TENSORFLOWS_CUDA:
            return toolkit
    return None


def _version_in(folder: Path) -> str:
    """The version of CUDA of the compiler in a folder, such as 12.5. Empty if there is none."""
    try:
        argv = [str(folder / "bin" / "nvcc"), "--version"]
        printed = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        return ""
    return "".join(re.findall(r"release (\d+\.\d+)", printed)[:1])
