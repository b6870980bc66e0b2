"""Folders of code in a spec or study: `code: .` in a file, `--set code=.`, or `hora run`. Called by what submits them.

A folder is packed before its spec is checked, and sent before that is submitted.
"""

import re
from collections.abc import Iterator, MutableMapping, MutableSequence, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hora.cli.output import say
from hora.errors import Json

if TYPE_CHECKING:
    from hora.service import Service
    from hora.service.code_folders import CodeSource

_DIGEST = re.compile("[0-9a-f]{64}")
_MOST_NAMED = 5  # of what is left out


def with_whole_paths(document: Json, around: Path) -> None:
    """Let the folders of code in the document of a file be relative to the folder that the file is in."""
    for place, key in _places(document):
        if _is_folder(place[key]):
            place[key] = str(around / Path(place[key]).expanduser())


def pack_code(document: Json) -> "list[CodeSource]":
    """Replace folders of code in a document by the digests of their archives, and return these.

    The labels of the spec say which git commit the folder is at. Lines on standard error say what is left out of it.
    Raises `UnsendableCode`.
    """
    from hora.service.code_folders import code_folder
    from hora.service.git import LABELS, git_labels

    archives: dict[str, CodeSource] = {}  # by folder
    for place, key in _places(document):
        if not _is_folder(folder := place[key]):
            continue
        if folder not in archives:
            archives[folder] = code_folder(Path(folder))
            _say_left_out(archives[folder].left_out)
        place[key] = archives[folder].digest
        if isinstance(place, MutableMapping) and isinstance(labels := place.get("labels", {}), dict):
            kept = {name: value for name, value in labels.items() if name not in LABELS}  # those were of other code
            place["labels"] = kept | git_labels(Path(folder))
    return list(archives.values())


def clear_old_commit(changes: Json, job: Json) -> None:
    """If the changes give a clone of this job other code, empty the labels that say the commit of the job's code.

    A change cannot remove a label.
    """
    from hora.service.git import LABELS

    old_labels, labels = job.get("labels") or {}, changes.get("labels", {})
    emptied = {name: "" for name in LABELS if name in old_labels}
    if emptied and changes.get("code", job.get("code")) != job.get("code") and isinstance(labels, dict):
        changes["labels"] = emptied | labels


def _say_left_out(left_out: "Sequence[str]") -> None:
    for named in left_out[:_MOST_NAMED]:
        say(f"left out: {named}")
    if len(left_out) > _MOST_NAMED:
        say(f"left out: {len(left_out) - _MOST_NAMED} more")


def send_packed(client: "Service", archives: "Sequence[CodeSource]") -> None:
    """Send the archives that the service lacks, with a progress bar on standard error. Raises `HoraError`."""
    from hora.cli.upload_progress import sending
    from hora.service.sending_code import send_code

    for archive in archives:
        with sending(archive.size_bytes) as show:
            send_code(client, archive, show)


def is_digest(text: str) -> bool:
    """Whether a text is the digest of an archive of code. In a spec all other texts are folders."""
    return _DIGEST.fullmatch(text) is not None


def _places(document: Json) -> Iterator[tuple[MutableMapping[str, Any] | MutableSequence[Any], Any]]:
    """Where the document of a spec or study may name code: an object or list, and the key or position in it."""
    for spec in (document, document.get("base")):
        if isinstance(spec, dict) and "code" in spec:
            yield spec, "code"
    grid = document.get("grid")
    values = grid.get("code") if isinstance(grid, dict) else None
    if isinstance(values, list):
        yield from ((values, position) for position in range(len(values)))


def _is_folder(value: Any) -> bool:
    return isinstance(value, str) and not is_digest(value)
