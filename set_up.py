"""Installs what a checkout needs, and shows its progress. `make` runs it if something has changed.

    set_up.py uv                   uv into .uv
    set_up.py environment          everything into .venv, for GPUs or for CPUs
    set_up.py peers                programs to compare with into .venv-peers
    set_up.py gpu FOLDER FILE      the packages of a file into an environment for GPUs, with NVIDIA's compiler wheels
    set_up.py hint                 nothing; says so if .venv is for CPUs on a machine with GPUs

HORA_DEVICE decides for what .venv is: `gpu`, `cpu`, or by default `auto`. With `auto` a new environment is for GPUs if
the machine has NVIDIA cards, and an environment that is there stays what it is (see set_up_gpu.py).

The output of a tool is shown if the tool fails. While it runs, its last line is shown: on a terminal in a line that
changes every second, elsewhere (a file, CI) in a new line every 20 seconds.
"""

import os
import re
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from set_up_gpu import (
    WHEELS,
    Compiler,
    Plan,
    Refused,
    architectures,
    build_variables,
    find_toolkit,
    held_kind,
    plan_for,
    read_driver,
)

UV = ".uv/bin/uv"
VENV = ".venv"
CUDA = ".cuda"  # what Horovod is compiled with for GPUs; needed only then
_TELL_EVERY_S = 20
_INDENT = " " * 6
_IS_TERMINAL = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True)
class Step:
    """Commands that do one thing together."""

    title: str
    commands: Sequence[Sequence[str]]
    variables: Mapping[str, str] = field(default_factory=dict)  # added to the environment of the commands


class Failed(Exception):
    """A command failed; the text says which one, and what it printed."""


def package_count(requirements: str) -> int:
    """How many packages a pinned file names."""
    return len(re.findall(r"^[^\s#-].*==", Path(requirements).read_text(), re.MULTILINE))


def uv_steps() -> list[Step]:
    """Install uv with pip."""
    pip = [".uv/bin/pip", "install", "--disable-pip-version-check", "--progress-bar=off", "--require-hashes"]
    make_venv = [sys.executable, "-m", "venv", "--clear", ".uv"]
    return [Step("Installing uv, which installs the rest", [make_venv, [*pip, "-r", "requirements/uv.txt"]])]


def venv_argv(folder: str, *, clear: bool = False) -> list[str]:
    """Create an environment, or keep the one that is there unless it is to be cleared."""
    return [UV, "venv", "--clear" if clear else "--allow-existing", "--python", sys.executable, folder]


def venv_step(folder: str, *, clear: bool = False) -> Step:
    """The step that creates an environment."""
    version = ".".join(map(str, sys.version_info[:3]))
    return Step(f"Creating {folder} with Python {version}", [venv_argv(folder, clear=clear)])


def sync_argv(folder: str, *options: str) -> list[str]:
    """Make an environment hold exactly what a pinned file names.

    It compiles all modules at once. If Python cannot store compiled modules, each process would need seconds for it.
    """
    return [UV, "pip", "sync", "--compile-bytecode", "--python", folder, "--require-hashes", *options]


def environment_plan() -> Plan:
    """For what .venv is filled. Raises `Refused`."""
    device = os.environ.get("HORA_DEVICE", "")
    return plan_for(device, held=held_kind(Path(VENV)), driver=read_driver(), toolkit=find_toolkit(os.environ))


def environment_steps(plan: Plan) -> list[Step]:
    """Fill .venv. The project itself comes last and is editable, so an edit needs no new set-up."""
    project = [UV, "pip", "install", "--python", VENV, "--no-deps", "--no-build-isolation", "--editable", "."]
    filling = gpu_steps(VENV, "requirements/dev-gpu.txt", plan.compiler) if plan.compiler else [cpu_step()]
    return [
        venv_step(VENV, clear=held_kind(Path(VENV)) not in (None, plan.kind)),
        *filling,
        Step("Building the dashboard and the documentation", [[f"{VENV}/bin/python", "hatch_build.py"]]),
        Step("Installing Hora itself", [project]),
    ]


def cpu_step() -> Step:
    """Install the packages for CPUs."""
    packages = "requirements/dev.txt"
    title = (
        f"Installing {package_count(packages)} packages; the first time compiles Horovod, about 3 minutes on 2 cores"
    )
    return Step(title, [sync_argv(VENV, "--build-constraints", "requirements/build.txt", packages)])


def gpu_steps(folder: str, packages: str, compiler: Compiler) -> list[Step]:
    """Install the packages for GPUs, and before them what Horovod is compiled with.

    uv keeps what it compiled apart by the configuration settings, so they name the compiler.
    """
    nvidia = Path(CUDA, "lib", f"python3.{sys.version_info.minor}", "site-packages", "nvidia").absolute()
    wheels = ["requirements/nccl.txt", *(["requirements/nvcc.txt"] if compiler.home is None else [])]
    links = [("libnccl.so.2", nvidia / "nccl/lib/libnccl.so")]
    if compiler.home is None:  # nvcc looks for its libraries under these names
        links += [("lib", nvidia / "cu13/lib64"), ("libcudart.so.13", nvidia / "cu13/lib/libcudart.so")]
    prepare = [venv_argv(CUDA), sync_argv(CUDA, *wheels), *(["ln", "-sfn", old, str(new)] for old, new in links)]
    made_with = f"horovod:cuda={compiler.version}-{architectures(compiler, os.environ)}"
    options = ["--config-file", "requirements/gpu.uv.toml", "--config-settings-package", made_with]
    options += ["--build-constraints", "requirements/build.txt"]
    title = (
        f"Installing {package_count(packages)} packages; the first time compiles Horovod, about 4 minutes on 2 cores"
    )
    return [
        Step(f"Preparing NCCL and {compiler}, to compile Horovod", prepare),
        Step(title, [sync_argv(folder, *options, packages)], build_variables(compiler, nvidia, os.environ)),
    ]


def peers_steps() -> list[Step]:
    """Fill .venv-peers."""
    packages = "requirements/peers.txt"
    title = f"Installing {package_count(packages)} packages to compare with"
    return [venv_step(".venv-peers"), Step(title, [sync_argv(".venv-peers", packages)])]


def gpu_environment_steps(folder: str, packages: str) -> list[Step]:
    """Fill a folder for GPUs on a machine that need not have any."""
    return [venv_step(folder), *gpu_steps(folder, packages, WHEELS)]


def activity(lines: Sequence[str]) -> str:
    """The present activity of a tool, from its output.

    uv announces a build and continues with downloads. At its end it lists the packages, and then compiles them.
    """
    building = [line for line in lines if line.startswith("Building ") and f"Built {line[9:]}" not in lines]
    others = [line for line in lines if not line.startswith(("+ ", "- ", "~ "))]
    return (building or others or [""])[-1]


def run(argv: Sequence[str], variables: Mapping[str, str], started_s: float) -> None:
    """Run a command, and show the time while it runs. Raises `Failed`."""
    # Horovod would compile eight files at once on any machine.
    jobs = f"-j{len(os.sched_getaffinity(0))}"
    environment = {**os.environ, "MAKEFLAGS": jobs, "PYTHONUNBUFFERED": "1", **variables}
    lines: list[str] = []
    with subprocess.Popen(
        argv, env=environment, text=True, errors="replace",
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    ) as process:  # fmt: skip
        reader = threading.Thread(target=lambda: lines.extend(line.strip() for line in process.stdout or ()))
        reader.start()
        told_s = started_s
        while reader.is_alive():
            reader.join(1.0)
            now_s = time.monotonic()
            if reader.is_alive() and (_IS_TERMINAL or now_s - told_s >= _TELL_EVERY_S):
                tell(f"{now_s - started_s:.0f} s  {activity(lines)}")
                told_s = now_s
    if process.returncode != 0:
        output = "\n".join(lines)
        raise Failed(f"`{shlex.join(argv)}` ended with status {process.returncode}:\n\n{output}\n")


def tell(text: str) -> None:
    """Show the progress of a step, on a terminal always in the same line."""
    if _IS_TERMINAL:
        width = shutil.get_terminal_size().columns - 1
        print(f"\r\033[K{(_INDENT + text)[:width]}", end="", flush=True)
    else:
        print(_INDENT + text, flush=True)


def perform(steps: Sequence[Step], *, before: int, total: int) -> None:
    """Do the steps one by one. `before` steps were done earlier, by another call. Raises `Failed`."""
    for number, step in enumerate(steps, start=before + 1):
        print(f"[{number}/{total}] {step.title}", flush=True)
        started_s = time.monotonic()
        try:
            for argv in step.commands:
                run(argv, step.variables, started_s)
        except Failed as error:
            raise Failed(f"Step {number} of {total} failed: {step.title}.\n{error}") from None
        finally:
            if _IS_TERMINAL:
                print("\r\033[K", end="", flush=True)
        print(f"{_INDENT}took {time.monotonic() - started_s:.0f} s", flush=True)


def set_up(what: str, *arguments: str) -> None:
    """Do one of what the top of this file lists. Raises `Failed` and `Refused`."""
    if what == "uv":
        perform(uv_steps(), before=0, total=1 + len(environment_steps(environment_plan())))
    elif what == "environment":
        plan = environment_plan()
        if plan.hint:
            print(plan.hint, flush=True)
        steps = environment_steps(plan)
        perform(steps, before=1, total=1 + len(steps))
    elif what == "peers":
        perform(peers_steps(), before=0, total=len(peers_steps()))
    elif what == "gpu" and len(arguments) == 2:
        steps = gpu_environment_steps(*arguments)
        perform(steps, before=0, total=len(steps))
    elif what == "hint":
        if held_kind(Path(VENV)) == "cpu" and (hint := environment_plan().hint):
            print(hint)
    else:
        sys.exit(__doc__)


def main(arguments: Sequence[str]) -> None:
    """Set up. If a tool fails, exit with status 1 and its output."""
    try:
        set_up(*arguments or [""])
    except Refused as error:
        sys.exit(str(error))
    except Failed as error:
        sys.exit(f"\n{error}\nFix the cause, then run the same command again. Finished steps are quick then.")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the same command again. Finished steps are quick then.")


if __name__ == "__main__":
    main(sys.argv[1:])
