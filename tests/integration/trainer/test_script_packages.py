"""Packages of scripts: installed by the real uv, from wheels that the test makes, and removed again."""

import base64
import fcntl
import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from trainer.script.packages import CannotInstall, InstalledSet, Packages, install, requirements_in
from worker.old_packages import OldPackages

MB = 10**6


def make_wheel(folder: Path, name: str, version: str, *, needs: str = "", filler_bytes: int = 0) -> None:
    """A wheel with one module, which says its version."""
    info = f"{name}-{version}.dist-info"
    needed = f"Requires-Dist: {needs}\n" if needs else ""
    files = {
        f"{name}.py": f"version = {version!r}\n".encode(),
        f"{name}_data/filler": os.urandom(filler_bytes),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needed}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    lines = [f"{path},{_digest(content)},{len(content)}" for path, content in files.items()]
    files[f"{info}/RECORD"] = "\n".join([*lines, f"{info}/RECORD,,"]).encode()
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as wheel:
        for path, content in files.items():
            wheel.writestr(path, content)


def _digest(content: bytes) -> str:
    return "sha256=" + base64.urlsafe_b64encode(hashlib.sha256(content).digest()).decode().rstrip("=")


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole package index of uv."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    monkeypatch.setenv("UV_FIND_LINKS", str(folder))
    monkeypatch.setenv("UV_NO_INDEX", "1")
    make_wheel(folder, "gadget", "1.0", needs="gizmo")
    make_wheel(folder, "gadget", "2.0", needs="gizmo")
    make_wheel(folder, "gizmo", "3.0")
    return folder


Install = Callable[..., InstalledSet]


@pytest.fixture
def install_set(tmp_path: Path, wheels: Path) -> Iterator[Install]:
    locks = []

    def put(*requirements: str, alone: bool = True, timeout_s: float = 120, most_bytes: int = 200 * MB) -> InstalledSet:
        packages = Packages(requirements, Path(sys.executable), alone, tmp_path / "sets", timeout_s, most_bytes)
        installed = install(packages)
        locks.append(installed.lock)
        return installed

    yield put
    for lock in locks:
        os.close(lock)


def run(installed: InstalledSet, code: str) -> str:
    argv = [str(installed.bin_dir / "python"), "-c", code]
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def test_a_script_imports_what_it_asked_for_and_what_that_needs_and_what_is_below_stays(
    install_set: Install,
) -> None:
    alone = install_set("gadget<2")
    assert run(alone, "import gadget, gizmo; print(gadget.version, gizmo.version)") == "1.0 3.0"
    assert run(alone, "import importlib.util; print(importlib.util.find_spec('numpy'))") == "None"
    above = install_set("gizmo", alone=False)
    assert run(above, "import gizmo, numpy; print(gizmo.version, numpy.__file__)").endswith("numpy/__init__.py")
    with pytest.raises(CannotInstall, match="numpy<1"):
        install_set("numpy<1", alone=False)


def test_ranks_install_a_set_once(install_set: Install, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with ThreadPoolExecutor(3) as ranks:
        folders = {installed.bin_dir for installed in ranks.map(lambda _: install_set("gadget", "gizmo"), range(3))}
    assert len(folders) == 1
    assert capfd.readouterr().out.count("installing gadget") == 1
    assert install_set("gizmo", "gadget").bin_dir in folders  # in whichever sequence they are named


def test_a_set_that_was_not_finished_is_installed_again(install_set: Install) -> None:
    installed = install_set("gizmo")
    _unlock(installed)
    (installed.bin_dir.parent / ".complete").unlink()
    (installed.bin_dir / "python").unlink()
    assert run(install_set("gizmo"), "import gizmo; print(gizmo.version)") == "3.0"


@pytest.mark.parametrize(
    ("package", "limits", "why"),
    [
        ("no-such-package", {}, "no-such-package"),
        ("gadget", {"timeout_s": 0}, r"took longer than 0 s"),
        ("heavy", {"most_bytes": 10 * MB}, r"more than 0\.01 GB"),
    ],
)
def test_what_cannot_be_installed_is_refused_and_leaves_nothing(
    install_set: Install, wheels: Path, tmp_path: Path, package: str, limits: dict[str, int], why: str
) -> None:
    make_wheel(wheels, "heavy", "1.0", filler_bytes=30 * MB)
    with pytest.raises(CannotInstall, match=why):
        install_set(package, **limits)
    assert [path for path in (tmp_path / "sets").iterdir() if path.is_dir()] == []


def test_a_requirements_file_names_packages_and_nothing_else_and_has_an_end(tmp_path: Path) -> None:
    file = tmp_path / "requirements.txt"
    head = "# what we need\ngizmo>=3  # newest\n\n"
    wrong = {"-r other.txt": "-r", "https://x.org/a.whl": "https", "./local": "local", "a @ file:///etc": "file"}
    for line, named in wrong.items():
        file.write_text(f"{head}{line}\n")
        with pytest.raises(CannotInstall, match=f"line 4 of requirements.txt.*{named}"):
            requirements_in(file)
    file.write_text(f"{head}gadget[extra]==1.*; python_version < '4'\n")
    assert requirements_in(file) == ["gizmo>=3", "gadget[extra]==1.*; python_version < '4'"]
    file.write_text("gizmo\n" * 20_000)
    with pytest.raises(CannotInstall, match="more than 64 KiB"):
        requirements_in(file)
    file.unlink()
    file.symlink_to("/dev/zero")
    with pytest.raises(CannotInstall, match="cannot be read"):
        requirements_in(file)
    file.unlink()
    os.mkfifo(file)
    with pytest.raises(CannotInstall, match="named pipe"):
        requirements_in(file)


def test_sets_beyond_the_limit_go_unless_a_script_uses_them(install_set: Install, tmp_path: Path) -> None:
    oldest, old, newest = install_set("gizmo"), install_set("gadget<2"), install_set("gadget>=2")
    for age, installed in enumerate((newest, old, oldest)):
        os.utime(installed.bin_dir.parent / ".complete", (1e9 - age, 1e9 - age))
    removal = OldPackages(tmp_path / "sets", most_bytes=0)
    assert not removal.remove_some()  # all are in use
    _unlock(oldest, old)
    assert removal.remove_some()
    assert not oldest.bin_dir.exists()
    assert old.bin_dir.exists()
    while removal.remove_some():
        pass
    assert (old.bin_dir.exists(), newest.bin_dir.exists()) == (False, True)
    assert not OldPackages(tmp_path / "nothing", most_bytes=0).remove_some()
    _unlock(newest)
    roomy = OldPackages(tmp_path / "sets", most_bytes=200 * MB)
    assert not roomy.remove_some()
    (newest.bin_dir.parent / ".complete").unlink()
    assert roomy.remove_some()  # half a set is of no use
    assert not newest.bin_dir.exists()


def _unlock(*sets: InstalledSet) -> None:
    for installed in sets:
        fcntl.flock(installed.lock, fcntl.LOCK_UN)
