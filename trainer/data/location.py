"""Where a dataset lies: a path or a URL below one of the data roots, and nothing outside them."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from trainer.exits import BadData


@dataclass(frozen=True)
class Location:
    """A file or a folder on a filesystem of fsspec; `path` is as that filesystem wants it."""

    source: str  # as the spec names it, for messages
    filesystem: Any  # fsspec.AbstractFileSystem; it has no types
    path: str

    @property
    def local(self) -> Path | None:
        """The path, where it is one of this host."""
        return Path(self.path) if "file" in _protocols(self.filesystem) else None


def locate(source: str, data_roots: Sequence[str], *, field: str) -> Location:
    """Find what a field of the spec names, below the data roots. Raises `BadData`."""
    if "://" in source:
        return _locate_url(source, data_roots, field)
    roots = [Path(root) for root in data_roots if "://" not in root]
    for root in roots:
        path = os.path.realpath(root / source)
        if os.path.exists(path) and Path(path).is_relative_to(os.path.realpath(root)):
            import fsspec.implementations.local

            return Location(source, fsspec.implementations.local.LocalFileSystem(), path)
    raise BadData(f"{field}: {source!r} is not on this host below the data roots ({_listed(data_roots)})")


def _locate_url(source: str, data_roots: Sequence[str], field: str) -> Location:
    """A URL is compared with the roots part by part; one that steps up or chains filesystems is refused."""
    parts = source.split("/")
    if "::" in source or not {".", ".."}.isdisjoint(parts) or not any(_is_below(parts, root) for root in data_roots):
        raise BadData(f"{field}: {source!r} is not below the data roots ({_listed(data_roots)})")
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(source)
        found = filesystem.exists(path)
    except (ImportError, ValueError, OSError) as error:
        raise BadData(f"{field}: cannot open {source!r}: {error}") from None
    if not found:
        raise BadData(f"{field}: there is nothing at {source!r}")
    return Location(source, filesystem, path)


def _is_below(parts: list[str], root: str) -> bool:
    above = root.rstrip("/").split("/")
    return "://" in root and parts[: len(above)] == above


def _protocols(filesystem: Any) -> tuple[str, ...]:
    protocol = filesystem.protocol
    return (protocol,) if isinstance(protocol, str) else tuple(protocol)


def _listed(data_roots: Sequence[str]) -> str:
    return ", ".join(data_roots) or "HORA_DATA_ROOTS is not set"
