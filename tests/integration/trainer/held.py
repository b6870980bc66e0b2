"""Runs a script as its rank does, held by what this process is told, and prints how it ended, as JSON. A program.

    python -m tests.integration.trainer.held {bubblewrap|mounts|landlock} FOLDER PROGRAM [NAME=VALUE ...]

PROGRAM runs `FOLDER/code/script.py`, with these variables in its environment. All processes below this one are the
script's, as below a rank. SHARED_MEMORY names its folder in memory. `mounts` is Landlock with that folder, `landlock`
without it.
"""

import json
import os
import sys
import time
from pathlib import Path

from jobs.runtime.files import make_private
from jobs.runtime.script_user import give, remove
from jobs.runtime.shared_memory import remove_unused
from trainer.script import confinement
from trainer.script import limits as limits_module
from trainer.script.confinement import CannotStart, Protections
from trainer.script.limits import Limits
from trainer.script.view import View

PYTHON = "/usr/bin/python3"


def main(held_by: str, folder: Path, program: str, *variables: str) -> None:
    """Run the script to its end."""
    confinement._MOST_TASKS, limits_module.MOST_TASKS = 100, 40  # other tests run beside this one
    found = confinement.protections()
    has = Protections(
        found.bubblewrap and held_by == "bubblewrap",
        found.landlock,
        found.mounts and held_by != "landlock",
        found.is_root,
    )
    confinement.protections = lambda: has
    sys.executable = PYTHON  # one that another user may run
    user = "nobody" if has.is_root else None
    environment = {"PATH": "/usr/bin:/bin", **dict(variable.split("=", 1) for variable in variables)}
    code, scratch, shared = folder / "code", folder / "scratch", Path(os.environ["SHARED_MEMORY"])
    make_private(scratch)
    give([code, scratch], user)
    view = View([], [str(code), str(scratch)], str(scratch / "tmp"), str(shared))
    try:
        child = confinement.start(
            [program, "script.py", str(folder)], folder=code, environment=environment,
            view=view, user=user, home=folder, most_file_bytes=10_000_000,
        )  # fmt: skip
    except CannotStart as error:
        remove([shared], user)
        sys.stdout.write(json.dumps({"said": str(error)}))
        return
    limits = Limits(
        child.pid, memory_bytes=300_000_000, storage_bytes=100_000_000, folders=[code, scratch], shared_memory=shared,
        user=user,
    )  # fmt: skip
    excess = None
    while child.poll() is None and excess is None:
        time.sleep(0.02)
        excess = limits.exceeded()
    limits.kill()
    remove([shared], user)
    remove_unused(user)
    sys.stdout.write(json.dumps({"code": child.wait(), "excess": excess, "left": limits.processes()}))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
