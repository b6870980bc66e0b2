"""Which files of a folder are sent as code, and that equal files give equal archives. On real folders."""

import errno
import io
import os
import socket
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from hora.errors import HoraError
from hora.service import code_folders
from hora.service.code_folders import CodeSource, code_folder
from hora.service.git import git_labels
from jobs.data.code_archives import inspect, unpack
from tests.archives import write_files


def made(folder: Path, files: Mapping[str, str]) -> Path:
    return write_files(folder, {name: content.encode() for name, content in files.items()})


def names(folder: Path) -> list[str]:
    return [file.name for file in code_folder(folder).files]


def git(folder: Path, *arguments: str) -> None:
    author = ["-c", "user.name=ada", "-c", "user.email=ada@hora.test", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, "-C", str(folder), *arguments], check=True, capture_output=True)


def test_equal_files_give_equal_archives_whatever_their_times_and_rights(tmp_path: Path) -> None:
    files = {"train.py": "print(1)", "lib/a.py": "x = 1", "lib-b": "", "run.sh": "#!/bin/sh"}
    one = made(tmp_path / "one", files)
    two = made(tmp_path / "two", dict(reversed(files.items())))
    for folder, rights in ((one, 0o700), (two, 0o755)):
        (folder / "run.sh").chmod(rights)
    os.utime(two / "train.py", (1, 1))
    (two / "train.py").chmod(0o600)
    assert code_folder(one).digest == code_folder(two).digest
    (two / "run.sh").chmod(0o644)
    assert code_folder(one).digest != code_folder(two).digest


def test_the_service_reads_and_unpacks_what_is_sent(tmp_path: Path) -> None:
    folder = made(tmp_path / "code", {"train.py": "print(1)", "lib/ä.py": "x" * 700, "run.sh": "", ".env/a": "hidden"})
    (folder / "run.sh").chmod(0o755)
    source = code_folder(folder)
    archive = tmp_path / "code.tar"
    archive.write_bytes(source.read(0, source.size_bytes))
    assert [file.path for file in inspect(archive)] == [".env/a", "lib/ä.py", "run.sh", "train.py"]
    unpack(archive, tmp_path / "unpacked")
    assert (tmp_path / "unpacked/lib/ä.py").read_text() == "x" * 700
    assert [os.access(tmp_path / "unpacked" / name, os.X_OK) for name in ("run.sh", "train.py")] == [True, False]
    with tarfile.open(fileobj=io.BytesIO(archive.read_bytes())) as members:
        assert {(member.mtime, member.uid, member.uname) for member in members} == {(0, 0, "")}
    source = CodeSource([code_folders.TarFile("call.pickle", 3, b"abc")])  # of memory
    archive.write_bytes(source.read(0, source.size_bytes))
    assert [file.path for file in inspect(archive)] == ["call.pickle"]
    assert source.largest_files().startswith("The arguments of a function are sent with it.")


def test_ignore_files_of_every_folder_are_honoured(tmp_path: Path) -> None:
    folder = made(
        tmp_path,
        {
            ".gitignore": "*.bin\n/out/\n!keep.bin\n", ".horaignore": "notes/\n", "a.bin": "", "keep.bin": "",
            "out/a.py": "", "lib/out/b.py": "", "notes/n.md": "", "lib/.gitignore": "!b.bin\n*.tmp\n", "lib/b.bin": "",
            "lib/c.bin": "", "lib/d.tmp": "", "e.tmp": "", "train.py": "",
        },
    )  # fmt: skip
    assert names(folder) == [
        ".gitignore", ".horaignore", "e.tmp", "keep.bin", "lib/.gitignore", "lib/b.bin", "lib/out/b.py", "train.py",
    ]  # fmt: skip
    over = made(tmp_path / "over", {".gitignore": "*.npz\n", ".horaignore": "!weights/start.npz\n", "b.npz": ""})
    made(over / "weights", {".gitignore": "*\n", "start.npz": "", "end.npz": ""})
    assert names(over) == [".gitignore", ".horaignore", "weights/start.npz"]  # .horaignore decides


def test_rules_of_the_repository_around_the_folder_are_honoured(tmp_path: Path) -> None:
    made(tmp_path, {".gitignore": "*.ckpt\n/build\n", "model/train.py": "", "model/a.ckpt": "", "build/train.py": ""})
    assert names(tmp_path / "model") == ["a.ckpt", "train.py"]
    (tmp_path / ".git").mkdir()
    assert names(tmp_path / "model") == ["train.py"]
    assert names(tmp_path / "build") == ["train.py"]  # git ignores it, but somebody asked for it


def test_never_sent(tmp_path: Path) -> None:
    never = {".git/config": "", ".venv/lib/a.py": "", "lib/__pycache__/a.pyc": "", "env/pyvenv.cfg": "", "env/a.py": ""}
    folder = made(tmp_path, never | {".horaignore": "!.git\n", "lib/a.py": "", "sub/.git": "gitdir: ../.git"})
    os.mkfifo(folder / "pipe")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(folder / "socket"))
        assert names(folder) == [".horaignore", "lib/a.py"]
        left_out = [f"{folder}/{name} (neither a file nor a folder)" for name in ("pipe", "socket")]
        assert code_folder(folder).left_out == left_out


def test_links_inside_are_followed_and_links_out_are_named(tmp_path: Path) -> None:
    made(tmp_path / "data", {"a.csv": "1"})
    folder = made(tmp_path / "code", {"lib/a.py": "x", "train.py": ""})
    (folder / "same.py").symlink_to("lib/a.py")
    (folder / "again").symlink_to("lib")
    (folder / ".#train.py").symlink_to("ada@host.123")  # an editor's lock leads nowhere
    assert names(folder) == ["again/a.py", "lib/a.py", "same.py", "train.py"]
    (folder / "again").unlink()
    for link, target in (("data", "../data"), ("lib/passwd", "/etc/passwd"), ("gone", "/nowhere")):
        (folder / link).symlink_to(target)
        with pytest.raises(HoraError, match=rf"code/{link} is a link to {target}, which is outside .*\.horaignore"):
            code_folder(folder)
        made(folder, {".horaignore": f"/{link}\n"})
        assert link not in names(folder)
        (folder / link).unlink()
    (folder / "lib/loop").symlink_to("..")
    with pytest.raises(HoraError, match="lib/loop is a link to a folder around it; leave it out with"):
        code_folder(folder)


def test_a_folder_that_is_too_large_names_its_largest_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path, {"train.py": "", "data/small": "x"})
    with (folder / "data/large.npz").open("wb") as file:
        file.truncate(3 * 10**9)
    with pytest.raises(HoraError, match=r"(?s)too large: 3\.0 GB.*\n  3\.0 GB  data/large\.npz\n.*\.horaignore"):
        code_folder(folder)
    (folder / "data/large.npz").unlink()
    monkeypatch.setattr(code_folders, "MOST_FILES", 1)
    with pytest.raises(HoraError, match=r"has 2 files.*data \(1\)"):
        code_folder(folder)


def test_folders_that_cannot_be_sent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HoraError, match="no files to send"):
        code_folder(tmp_path)
    with pytest.raises(HoraError, match="is not a folder"):
        code_folder(tmp_path / "nowhere")
    made(tmp_path, {"Train.py": "", "train.py": ""})
    with pytest.raises(HoraError, match=r"'train\.py' occurs twice"):
        code_folder(tmp_path)
    (tmp_path / "Train.py").unlink()
    (tmp_path / os.fsdecode(b"\xff.txt")).write_text("")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HoraError) as caught:
        code_folder(Path())
    assert str(caught.value) == (
        f"{tmp_path} cannot be sent: the name '\\udcff.txt' has control characters, or is not UTF-8;"
        " leave it out with a line in .horaignore."
    )


def test_a_folder_that_cannot_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(tmp_path, {"train.py": "", "d/a.py": ""})

    def refusing(call: Callable[..., Any]) -> Callable[..., Any]:  # as the system does, but not to root
        def refuses(path: Any, *arguments: Any, **named: Any) -> Any:
            if str(path).startswith(str(folder / "d")):
                raise PermissionError(errno.EACCES, "Permission denied", str(path))
            return call(path, *arguments, **named)

        return refuses

    monkeypatch.setattr(os, "stat", refusing(os.stat))
    monkeypatch.setattr(os, "scandir", refusing(os.scandir))
    monkeypatch.chdir(folder)
    with pytest.raises(HoraError, match=r"^d cannot be read: Permission denied; leave it out with .* \.horaignore"):
        code_folder(Path())


def test_git_says_the_commit_and_whether_files_differ(tmp_path: Path) -> None:
    folder = made(tmp_path, {"code/train.py": "", "other": ""}) / "code"
    assert git_labels(folder) == {}
    git(tmp_path, "init", "-q", "-b", "feature/lines")
    assert git_labels(folder) == {}  # there is no commit yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-qm", "first")
    commit = git_labels(folder)["git.commit"]
    assert (len(commit), git_labels(folder)["git.dirty"]) == (40, "false")
    made(tmp_path, {"other": "changed"})
    assert git_labels(folder)["git.dirty"] == "false"
    made(folder, {"new.py": ""})
    assert git_labels(folder) == {"git.commit": commit, "git.dirty": "true", "git.branch": "feature/lines"}
    git(tmp_path, "checkout", "-q", "--detach")
    assert git_labels(folder) == {"git.commit": commit, "git.dirty": "true"}
