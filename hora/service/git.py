"""Which commit and branch a folder of code is at, as labels for its jobs. Used where a folder is sent with a job."""

import os
import subprocess
from pathlib import Path

LABELS = COMMIT_LABEL, DIRTY_LABEL, BRANCH_LABEL = "git.commit", "git.dirty", "git.branch"
_LIMIT_S = 20.0
_LONGEST = 63  # of a branch: a longer name is left out


def git_labels(folder: Path) -> dict[str, str]:
    """The commit, whether files below the folder differ from it, and the branch, if one is checked out.

    Empty if git says nothing about the folder.
    """
    commit = _git(folder, "rev-parse", "--verify", "--quiet", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--", ".")
    if not commit or changes is None:
        return {}
    branch = _git(folder, "symbolic-ref", "--short", "--quiet", "HEAD") or ""
    of_branch = {BRANCH_LABEL: branch} if branch.isprintable() and 0 < len(branch) <= _LONGEST else {}
    return {COMMIT_LABEL: commit, DIRTY_LABEL: "true" if changes else "false", **of_branch}


def _git(folder: Path, *arguments: str) -> str | None:
    """What git prints. None if there is no git, no repository, or no answer in time."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0", "LC_ALL": "C"}
    try:
        answer = subprocess.run(
            ["git", "-C", str(folder), *arguments], env=environment, stdin=subprocess.DEVNULL,
            capture_output=True, text=True, errors="replace", timeout=_LIMIT_S, check=True,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()
