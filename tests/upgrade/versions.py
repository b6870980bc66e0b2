"""Versions of Hora side by side on one machine: this tree, and an older one out of git.

Both run on the packages of this environment. `PYTHONPATH` decides whose code a process runs.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]


class NoOlderVersion(Exception):
    """There is no older version here; the text says why."""


def newest_older_version() -> str:
    """The newest tag, or else the last commit before the schema last changed. Raises `NoOlderVersion`."""
    tag = _git("describe", "--tags", "--abbrev=0")
    if tag is not None:
        return tag
    last_change = _git("log", "-1", "--diff-filter=A", "--format=%H", "--", "migrations/versions")
    before = _git("rev-parse", "--verify", "--quiet", f"{last_change}^") if last_change else None
    if before is None:
        raise NoOlderVersion("git has no history here that reaches back to an older schema")
    return before


def _git(*arguments: str) -> str | None:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


@dataclass(frozen=True)
class Version:
    """One version of Hora."""

    name: str
    tree: Path

    @classmethod
    def of(cls, revision: str, folder: Path) -> "Version":
        """The version at a revision of git, unpacked into `folder`. Raises `NoOlderVersion`."""
        done = subprocess.run(["git", "archive", revision], cwd=ROOT, capture_output=True, check=False)
        if done.returncode:
            raise NoOlderVersion(done.stderr.decode(errors="replace").strip())
        folder.mkdir(parents=True)
        subprocess.run(["tar", "--extract", "--directory", folder], input=done.stdout, check=True)
        return cls(revision[:12], folder)

    def environment(self, settings: Mapping[str, str]) -> dict[str, str]:
        """The environment of a process of this version; `settings` alone name the stack."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("HORA_")}
        return {**kept, "PYTHONPATH": str(self.tree), "PYTHONUNBUFFERED": "1", **settings}

    def start(self, *arguments: str, settings: Mapping[str, str], log: Path) -> "subprocess.Popen[bytes]":
        """Start `python ARGUMENTS`. It ends with this process at the latest."""
        with log.open("ab") as output:
            return subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", "--", sys.executable, *arguments],
                env=self.environment(settings), cwd=log.parent, stdin=subprocess.DEVNULL, stdout=output, stderr=output,
                start_new_session=True,
            )  # fmt: skip

    def migrate(self, settings: Mapping[str, str]) -> None:
        """Bring the database to this version's schema."""
        subprocess.run(
            [sys.executable, "-m", "migrations", "upgrade"], env=self.environment(settings), cwd=self.tree, check=True,
            capture_output=True,
        )  # fmt: skip


NEW = Version("this version", ROOT)
