"""Archives of code: a folder without the files that its ignore files leave out, or a few files made in memory.

Equal files give equal archives, with the same digest, on every machine. Used by `hora.service.sending_code`, the
command line and the client.
"""

import hashlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pathspec import GitIgnoreSpec

from hora.errors import HoraError
from hora.service.upload_sources import TarFile, TarSource
from jobs.data.archive_names import Refused, Tree, parts_of
from jobs.data.code_archives import MOST_FILES, MOST_UNPACKED_BYTES
from jobs.runtime.files import size_text

# What .horaignore says goes before what .gitignore says; a folder's own file before those of the folders around it.
IGNORE_FILES = (".horaignore", ".gitignore")
_NEVER_SENT = frozenset({".git", ".venv", "__pycache__"})
_ENVIRONMENT_MARK = "pyvenv.cfg"  # in every virtual environment, whatever its name
_READ_BYTES = 4 * 1024 * 1024
_NAMED_FILES = 5
_LEAVE_OUT = "leave it out with a line in .horaignore."


class UnsendableCode(HoraError):
    """What was named as code cannot be sent."""


class CodeSource(TarSource):
    """An archive of code to send. It is read from the disk as it is sent, and never written.

    `left_out` says what a folder holds that cannot be sent, a line each.
    """

    def __init__(self, files: Iterable[TarFile], left_out: Sequence[str] = ()) -> None:
        self.files = sorted(files)
        self.left_out = left_out
        super().__init__(self.files)

    @cached_property
    def digest(self) -> str:
        """SHA-256 of its bytes: the `code` of a spec. Raises `HoraError` if a file cannot be read."""
        sha256 = hashlib.sha256()
        for offset in range(0, self.size_bytes, _READ_BYTES):
            sha256.update(self.read(offset, _READ_BYTES))
        return sha256.hexdigest()

    @property
    def filename(self) -> str:
        """See `UploadSource.filename`."""
        return f"code-{self.digest}.tar"

    def largest_files(self) -> str:
        """The largest files, one a line, for an archive that is too large. Files in memory are those of a call."""
        if all(isinstance(file.content, bytes) for file in self.files):
            return "The arguments of a function are sent with it. Let it read large ones from a dataset or a file."
        largest = sorted(self.files, key=lambda file: file.size_bytes, reverse=True)[:_NAMED_FILES]
        lines = [f"  {size_text(file.size_bytes)}  {file.name}" for file in largest]
        return "\n".join(["The largest files:", *lines, "Leave files out with lines in .horaignore."])


def code_folder(folder: Path) -> CodeSource:
    """The code in a folder. Raises `UnsendableCode`."""
    if not folder.is_dir():
        raise UnsendableCode(f"{folder} is not a folder.")
    named = folder if folder.parts else folder.resolve()  # a sentence about `.` would begin with a full stop
    walk = _Walk(folder)
    try:
        files = list(walk.files())
    except OSError as error:
        path = walk.named(Path(error.filename or folder))
        raise UnsendableCode(
            f"{path if path.parts else named} cannot be read: {error.strerror}; {_LEAVE_OUT}"
        ) from None
    if not files:
        raise UnsendableCode(f"{named} has no files to send.")
    _check_names(named, files)
    source = CodeSource(files, walk.left_out)
    total_bytes = sum(file.size_bytes for file in files)
    if total_bytes > MOST_UNPACKED_BYTES:
        limit = f"{size_text(total_bytes)}, and code may have {size_text(MOST_UNPACKED_BYTES)}"
        raise UnsendableCode(f"{named} is too large: {limit}.\n{source.largest_files()}")
    return source


@dataclass(frozen=True)
class _Rules:
    """The ignore files of a folder and of those around it, by their name; the innermost comes last."""

    by_name: Mapping[str, tuple[tuple[Path, GitIgnoreSpec], ...]]

    def leave_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether a file or folder is not sent. The first rule that says something about it decides."""
        for name in IGNORE_FILES:
            for folder, rules in reversed(self.by_name[name]):
                below = path.relative_to(folder).as_posix() + "/" * is_folder
                decision = rules.check_file(below).include
                if decision is not None:
                    return decision
        return False

    def inside(self, folder: Path) -> "_Rules":
        """The rules for what is in a folder."""
        return _Rules({name: (*levels, *_level(folder / name)) for name, levels in self.by_name.items()})


def _level(file: Path) -> list[tuple[Path, GitIgnoreSpec]]:
    try:
        lines = file.read_text(encoding="utf-8", errors="surrogateescape").splitlines()
    except (FileNotFoundError, IsADirectoryError):
        return []
    try:
        return [(file.parent, GitIgnoreSpec.from_lines(lines))]
    except ValueError as error:
        raise UnsendableCode(f"{file} has a line that is no pattern: {error}.") from None


def _rules_around(folder: Path) -> _Rules:
    """The rules of the folders around this one, up to the top of its git repository."""
    rules = _Rules(dict.fromkeys(IGNORE_FILES, ()))
    tops = [top for top in folder.parents if (top / ".git").exists()]
    if not tops or (folder / ".git").exists():
        return rules
    for outer in reversed(folder.parents[: folder.parents.index(tops[0]) + 1]):
        if not (inner := rules.inside(outer)).leave_out(folder, is_folder=True):  # the person has named this folder
            rules = inner
    return rules


class _Walk:
    """Finds the files to send. Links to files and folders below the top are followed."""

    def __init__(self, folder: Path) -> None:
        self._given = folder
        self._top = folder.resolve()
        self.left_out: list[str] = []

    def files(self) -> Iterator[TarFile]:
        """The files, without those that are left out."""
        yield from self._below(self._top, _rules_around(self._top), [self._top])

    def _below(self, folder: Path, outer: _Rules, real_folders: list[Path]) -> Iterator[TarFile]:
        """The files in a folder. `real_folders` are where it and those around it are, behind all links."""
        rules = outer.inside(folder)
        with os.scandir(folder) as found:
            entries = sorted(found, key=lambda entry: entry.name)
        for entry in entries:
            path = Path(entry.path)
            is_folder = entry.is_dir()
            if entry.name in _NEVER_SENT or rules.leave_out(path, is_folder=is_folder):
                continue
            real = self._behind_link(path) if entry.is_symlink() else real_folders[-1] / entry.name
            # Path.exists would raise for a folder that cannot be read, with the name of a file that nobody knows.
            if is_folder and not os.path.exists(path / _ENVIRONMENT_MARK):
                if real in real_folders:
                    raise UnsendableCode(f"{self.named(path)} is a link to a folder around it; {_LEAVE_OUT}")
                yield from self._below(path, rules, [*real_folders, real])
            elif entry.is_file():
                status = entry.stat()
                mode = 0o700 if status.st_mode & stat.S_IXUSR else 0o600
                yield TarFile(path.relative_to(self._top).as_posix(), status.st_size, path, mode)
            elif not is_folder:
                kind = "a link that leads nowhere" if entry.is_symlink() else "neither a file nor a folder"
                self.left_out.append(f"{self.named(path)} ({kind})")

    def _behind_link(self, path: Path) -> Path:
        """Where a link leads. Raises `UnsendableCode` if that is outside of the folder that is sent."""
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(self._top):
            leads_out = f"{self.named(path)} is a link to {os.readlink(path)}, which is outside of the folder"
            raise UnsendableCode(f"{leads_out}. Copy it into the folder, or {_LEAVE_OUT}")
        return real

    def named(self, path: Path) -> Path:
        """A path as the person named the folder that it is in."""
        return self._given / path.relative_to(self._top) if path.is_relative_to(self._top) else path


def _check_names(folder: Path, files: list[TarFile]) -> None:
    """Refuse names that the service would refuse, before anything is sent. Raises `UnsendableCode`."""
    if len(files) > MOST_FILES:
        raise _too_many(folder, files)
    tree = Tree(MOST_FILES)
    try:
        for file in files:
            tree.add(parts_of(file.name), is_folder=False, name=file.name)
    except Refused as error:
        problem = str(error).rpartition("unpacked: ")[2].replace("\\\\", "\\")  # it has the name as Python writes it
        raise UnsendableCode(f"{folder} cannot be sent: {problem}; {_LEAVE_OUT}") from None


def _too_many(folder: Path, files: list[TarFile]) -> UnsendableCode:
    by_folder = Counter(file.name.partition("/")[0] for file in files if "/" in file.name)
    most = ", ".join(f"{name} ({count})" for name, count in by_folder.most_common(_NAMED_FILES))
    return UnsendableCode(
        f"{folder} has {len(files)} files, and code may have {MOST_FILES}. The folders with most: {most}.\n"
        "Leave files out with lines in .horaignore."
    )
