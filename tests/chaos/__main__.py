"""`python -m tests.chaos --seed N --rounds N`: rounds of chaos on this machine, with the seeds N, N + 1, and so on.

The exit code is 1 if a check failed. The home of a failed round is kept.
"""

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos import disks
from tests.chaos.round import run_round
from tests.chaos.script import Harm, script_of
from tests.chaos.shares import shares_script_of

_NAMES = {harm.name.lower().replace("_", "-"): harm for harm in Harm}


def _enter_own_mounts() -> None:
    """As root: run this again in a mount namespace. Its disks go with its last process, whatever that dies of."""
    if disks.reason_to_skip() is None and "CHAOS_MOUNTS" not in os.environ:
        os.environ["CHAOS_MOUNTS"] = "own"
        os.execvp("unshare", ["unshare", "--mount", sys.executable, "-m", "tests.chaos", *sys.argv[1:]])  # noqa: S606 - no shell


def main() -> int:
    """Run the rounds one after the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos")
    parser.add_argument("--seed", type=int, default=1, help="of the first round")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--shares", action="store_true", help="several users, whose jobs preempt each other")
    parser.add_argument("--jobs", type=int, help="40, or 16 with --shares")
    parser.add_argument("--disturbances", type=int, help="one of each harm by default")
    parser.add_argument("--harms", help="only these, separated by commas: " + ", ".join(_NAMES))
    arguments = parser.parse_args()
    harms = [_NAMES[name] for name in arguments.harms.split(",")] if arguments.harms else list(Harm)
    _enter_own_mounts()
    failed = {}
    for seed in range(arguments.seed, arguments.seed + arguments.rounds):
        folder = Path(tempfile.mkdtemp(prefix="hora-"))
        folder.chmod(0o755)  # the database's own user must get in
        jobs = arguments.jobs or (16 if arguments.shares else 40)
        plan = shares_script_of if arguments.shares else script_of
        script = plan(seed, jobs=jobs, disturbances=arguments.disturbances or len(harms), harms=harms)
        if run_round(script, folder / "chaos", say=lambda line: print(line, flush=True)):
            failed[seed] = folder
        else:
            shutil.rmtree(folder, ignore_errors=True)
    for seed, folder in failed.items():
        print(f"seed {seed} failed; its logs and rows are in {folder}; to repeat it: make chaos SEED={seed}"
              f"{' SHARES=1' if arguments.shares else ''}")  # fmt: skip
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
