"""Installs what a checkout needs, and shows its progress. `make` runs it if something has changed.

    set_up.py uv             uv into .uv
    set_up.py environment    everything into .venv
    set_up.py peers          programs to compare with into .venv-peers

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
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

UV = ".uv/bin/uv"
_TELL_EVERY_S = 20
_INDENT = " " * 6
_IS_TERMINAL = sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


@dataclass(frozen=True)
class Step:
    """Commands that do one thing together."""

    title: str
    commands: Sequence[Sequence[str]]


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


def venv_step(folder: str) -> Step:
    """Create an environment, or keep the one that is there."""
    version = ".".join(map(str, sys.version_info[:3]))
    argv = [UV, "venv", "--allow-existing", "--python", sys.executable, folder]
    return Step(f"Creating {folder} with Python {version}", [argv])


def sync_argv(folder: str, *options: str) -> list[str]:
    """Make an environment hold exactly what a pinned file names.

    It compiles all modules at once. If Python cannot store compiled modules, each process would need seconds for it.
    """
    return [UV, "pip", "sync", "--compile-bytecode", "--python", folder, "--require-hashes", *options]


def environment_steps() -> list[Step]:
    """Fill .venv. The project itself comes last and is editable, so an edit needs no new set-up."""
    packages = "requirements/dev.txt"
    title = (
        f"Installing {package_count(packages)} packages; the first time compiles Horovod, about 3 minutes on 2 cores"
    )
    project = [UV, "pip", "install", "--python", ".venv", "--no-deps", "--no-build-isolation", "--editable", "."]
    return [
        venv_step(".venv"),
        Step(title, [sync_argv(".venv", "--build-constraints", "requirements/build.txt", packages)]),
        Step("Building the dashboard and the documentation", [[".venv/bin/python", "hatch_build.py"]]),
        Step("Installing Hora itself", [project]),
    ]


def peers_steps() -> list[Step]:
    """Fill .venv-peers."""
    packages = "requirements/peers.txt"
    title = f"Installing {package_count(packages)} packages to compare with"
    return [venv_step(".venv-peers"), Step(title, [sync_argv(".venv-peers", packages)])]


def activity(lines: Sequence[str]) -> str:
    """The present activity of a tool, from its output.

    uv announces a build and continues with downloads. At its end it lists the packages, and then compiles them.
    """
    building = [line for line in lines if line.startswith("Building ") and f"Built {line[9:]}" not in lines]
    others = [line for line in lines if not line.startswith(("+ ", "- ", "~ "))]
    return (building or others or [""])[-1]


def run(argv: Sequence[str], started_s: float) -> None:
    """Run a command, and show the time while it runs. Raises `Failed`."""
    # Horovod would compile eight files at once on any machine.
    variables = os.environ | {"MAKEFLAGS": f"-j{len(os.sched_getaffinity(0))}", "PYTHONUNBUFFERED": "1"}
    lines: list[str] = []
    with subprocess.Popen(
        argv, env=variables, text=True, errors="replace",
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
                run(argv, started_s)
        except Failed as error:
            raise Failed(f"Step {number} of {total} failed: {step.title}.\n{error}") from None
        finally:
            if _IS_TERMINAL:
                print("\r\033[K", end="", flush=True)
        print(f"{_INDENT}took {time.monotonic() - started_s:.0f} s", flush=True)


def main(what: str) -> None:
    """Do one of the three. If a tool fails, exit with status 1 and its output."""
    try:
        if what == "uv":
            perform(uv_steps(), before=0, total=5)
        elif what == "environment":
            perform(environment_steps(), before=1, total=5)
        elif what == "peers":
            perform(peers_steps(), before=0, total=2)
        else:
            sys.exit(__doc__)
    except Failed as error:
        sys.exit(f"\n{error}\nFix the cause, then run the same command again. Finished steps are quick then.")
    except KeyboardInterrupt:
        sys.exit("\nStopped. Run the same command again. Finished steps are quick then.")


if __name__ == "__main__":
    main(*sys.argv[1:2] or [""])
