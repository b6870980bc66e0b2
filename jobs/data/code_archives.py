"""Archives of code as files: unpacks them. Called by the launcher and by members on other hosts.

BadArchive      the archive cannot be unpacked; the text is a sentence
"""

import tarfile
from pathlib import Path


class BadArchive(ValueError):
    """The archive cannot be unpacked, or holds what it may not; the text is a sentence."""


def unpack(archive: Path, folder: Path) -> None:
    """Unpack an archive into a folder, and nothing outside it. Raises `BadArchive`, and `OSError` of the disk."""
    try:
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise BadArchive(f"the archive of the code cannot be unpacked: {error}") from None
