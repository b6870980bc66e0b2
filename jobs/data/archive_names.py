"""The names in an untrusted archive: each has to lead below the folder that the archive is unpacked into, and once.

Used by `jobs.data.archives` and `jobs.data.archive_entries`.
"""

import unicodedata
from hashlib import blake2b

_MOST_PARTS = 16  # depth of nested folders
_LONGEST_PART_BYTES = 255
_LONGEST_NAME_BYTES = 1024
_NAMED_CHARACTERS = 100


class Refused(Exception):
    """The archive will not be unpacked."""


def parts_of(name: str) -> tuple[str, ...]:
    """The parts of an entry's name: its folders from the top, then the file. Raises `Refused`."""
    parts = tuple(part for part in name.removesuffix("/").split("/") if part != ".")
    if name.startswith("/") or (len(name) > 1 and name[1] == ":") or "\\" in name:
        raise name_refused(name, "is absolute, or written with backslashes")
    if ".." in parts:
        raise name_refused(name, "leads outside the archive")
    if any(unicodedata.category(character) in {"Cc", "Cs"} for character in name):
        raise name_refused(name, "has control characters, or is not UTF-8")
    if "" in parts and parts != ("",):
        raise name_refused(name, "has an empty part")
    if len(parts) > _MOST_PARTS:
        raise name_refused(name, f"is more than {_MOST_PARTS} folders deep")
    longest = max((len(part.encode()) for part in parts), default=0)
    if longest > _LONGEST_PART_BYTES or len(name.encode()) > _LONGEST_NAME_BYTES:
        raise name_refused(name, "is too long")
    return tuple(filter(None, parts))


def name_refused(name: str, reason: str) -> Refused:
    """The refusal of an archive because of one name in it."""
    shown = name.encode("utf-8", "backslashreplace").decode()[:_NAMED_CHARACTERS]
    return Refused(f"the archive will not be unpacked: the name {shown!r} {reason}")


class Tree:
    """The names so far, as short digests. Two names that differ only in case would be one file on some hosts."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._exact: dict[bytes, bytes] = {}  # folders
        self.files: set[bytes] = set()

    def add(self, parts: tuple[str, ...], *, is_folder: bool, name: str) -> None:
        """Remember a name. Raises `Refused` if it, or one of its folders, was there as something else."""
        folders = parts if is_folder else parts[:-1]
        for depth in range(len(folders), 0, -1):
            folded, exact = _folded(folders[:depth]), _digest("/".join(folders[:depth]))
            if self._exact.setdefault(folded, exact) != exact or folded in self.files:
                raise name_refused(name, "occurs twice, in upper and lower case or as a file and a folder")
        if not is_folder:
            folded = _folded(parts)
            if folded in self.files or folded in self._exact:
                raise name_refused(name, "occurs twice")
            self.files.add(folded)
        if len(self.files) + len(self._exact) > self._limit:
            raise Refused(f"the archive will not be unpacked: it has more than {self._limit} files and folders")


def _folded(parts: tuple[str, ...]) -> bytes:
    return _digest(unicodedata.normalize("NFC", "/".join(parts)).casefold())


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()
