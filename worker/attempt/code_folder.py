"""The folders of a script on one host: its code, and the library that it imports. Made by the launcher and by members.

It imports little, because members start at once.
"""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jobs.runtime.files import make_private
from jobs.runtime.script_user import give, open_to_read

_LIBRARY = "hora"
_AT_START = Path("hooks", "sitecustomize.py")  # in the library; Python runs it when it starts


class BadCode(ValueError):
    """The archive is damaged, or cannot be unpacked; the text is a sentence."""


def library_folder() -> str:
    """The real folder of the installed package `hora`, whose module `run` scripts import. It is not imported here."""
    package = find_spec(_LIBRARY)
    if package is None or not package.submodule_search_locations:
        raise OSError(f"the package {_LIBRARY} is not installed on this host")
    return os.path.realpath(package.submodule_search_locations[0])


def hand_over(script: Mapping[str, Any]) -> None:
    """Let the user of scripts, if there is one, write its code and read what it needs. Raises `OSError`.

    `script` is the part of the launch file that is about it (`jobs.model.launch.ScriptLaunch`).
    """
    user, home = script["user"], script["home"]
    give([Path(script["code_dir"])], user)
    open_to_read([path for path in script["readable"] if Path(path).is_relative_to(home)], user)


def unpack_code(archive: Path, *, digest: str, code_dir: Path, lib_dir: Path) -> None:
    """Unpack an archive whose SHA-256 is `digest`, and link the library. Raises `BadCode`, `OSError`."""
    import hashlib

    from jobs.data.code_archives import BadArchive, unpack

    with archive.open("rb") as file:
        actual = hashlib.file_digest(file, "sha256").hexdigest()
    if actual != digest:
        raise BadCode(f"the archive of the code is damaged: its SHA-256 is {actual}, not {digest}")
    try:
        unpack(archive, code_dir)
    except BadArchive as error:
        raise BadCode(f"the archive of the code cannot be unpacked: {error}") from None
    link_library(lib_dir)


def link_library(lib_dir: Path) -> None:
    """Make the folder that is on the path of a script: the library, and what Python runs when it starts."""
    make_private(lib_dir)
    library = Path(library_folder())
    for name, target in ((_LIBRARY, library), (_AT_START.name, library / _AT_START)):
        link = lib_dir / name
        link.unlink(missing_ok=True)
        link.symlink_to(target)
