"""The texts of files in archives of code, and how they differ.

Called by the process of the api that looks into archives (`api.processes.code_inspection`).

    BadArchive      the archive cannot be read
"""

import difflib
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

from jobs.data.archives import Counter, Refused, checked_entries, refusing_damage
from jobs.data.code_archives import MOST_UNPACKED_BYTES, BadArchive, limits_of_code

MOST_TEXT_BYTES = 512 * 1024  # of a file whose text is shown
_MOST_LINES = 20_000  # of a file whose lines are compared
_MOST_DIFF_LETTERS = 1024 * 1024  # of all files


def texts_of(archive: Path, paths: Collection[str]) -> dict[str, str | None]:
    """The texts of these files by path; None where a file is no text, or too long. Raises `BadArchive`."""
    limits, texts = limits_of_code(MOST_UNPACKED_BYTES), dict[str, str | None]()
    try:
        counter = Counter(limits, archive.stat().st_size)
        with refusing_damage():
            for parts, entry in checked_entries(archive, counter, limits):
                if entry.content is not None and (path := "/".join(parts)) in paths:
                    texts[path] = _text_in(entry.content.read(MOST_TEXT_BYTES + 1))
                    if len(texts) == len(paths):
                        break
    except Refused as refusal:
        raise BadArchive(str(refusal)) from refusal
    return texts


def _text_in(content: bytes) -> str | None:
    if len(content) > MOST_TEXT_BYTES or b"\0" in content:
        return None
    try:
        return content.decode()
    except UnicodeDecodeError:
        return None


def differences(
    before: Mapping[str, str | None], after: Mapping[str, str | None], paths: Sequence[str]
) -> dict[str, str | None]:
    """The hunks of a unified diff of each file. A file that is in one of the two only counts as empty in the other.

    None where a text is not known, or has too many lines. Short texts come first: None for all that are longer than
    those with a megabyte of differences.
    """
    left, hunks = _MOST_DIFF_LETTERS, dict[str, str | None]()
    for path in sorted(paths, key=lambda path: len(before.get(path) or "") + len(after.get(path) or "")):
        hunks[path] = found = _hunks(before.get(path, ""), after.get(path, "")) if left > 0 else None
        left -= len(found or "")
        if left < 0:
            hunks[path] = None
    return hunks


def _hunks(before: str | None, after: str | None) -> str | None:
    if before is None or after is None:
        return None
    old, new = _lines(before), _lines(after)
    if max(len(old), len(new)) > _MOST_LINES:
        return None
    lines = list(difflib.unified_diff(old, new, lineterm=""))
    return "\n".join(lines[2:])  # without the names of the two files


def _lines(text: str) -> list[str]:
    """The lines of a text, as `diff` has them: only a line feed ends one."""
    *lines, last = text.split("\n")
    return [*lines, f"{last}\n\\ No newline at end of file"] if last else lines
