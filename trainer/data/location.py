"""Where a dataset lies: a path or a URL below one of the data roots, and nothing outside them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jobs.model.os_errors import without_paths
from jobs.runtime.data_roots import LOCAL_SCHEMES, folders_of, is_in, is_plain_url, path_below, path_of
from trainer.errors import BadData


@dataclass(frozen=True)
class Location:
    """A file or a folder on a filesystem of fsspec. `path` has the form of that filesystem."""

    source: str  # as the spec names it, for messages
    filesystem: Any  # fsspec.AbstractFileSystem; it has no types
    path: str

    @property
    def local(self) -> Path | None:
        """The path, if it is one of this host."""
        protocol = self.filesystem.protocol
        return Path(self.path) if "file" in ((protocol,) if isinstance(protocol, str) else protocol) else None


def locate(source: str, data_roots: Sequence[str], *, field: str) -> Location:
    """Find what a field of the spec names, below the data roots. Raises `BadData`."""
    if "://" not in source:
        return _locate_path(source, [root for root in data_roots if "://" not in root], data_roots, field)
    if not any(_is_below(source, root) for root in data_roots):
        raise BadData(f"{field}: {source!r} is not below the data roots ({_roots_text(data_roots)})")
    if source.startswith(LOCAL_SCHEMES):  # by its path, so that a link out of the root is seen
        roots = [path_of(root) for root in data_roots if root.startswith(LOCAL_SCHEMES)]
        return _locate_path(path_of(source), roots, data_roots, field)
    return _locate_url(source, field)


def local_files() -> Any:
    """The filesystem of this host, which opens regular files only."""
    from trainer.data.local_files import RegularFiles  # fsspec is slow to import

    return RegularFiles()


def is_within(path: str, data_roots: Sequence[str]) -> bool:
    """Whether a path of this host, all links followed, is below one of the data roots."""
    return any(is_in(path, folder) for folder in folders_of(data_roots))


def _locate_path(source: str, roots: Sequence[str], data_roots: Sequence[str], field: str) -> Location:
    path = path_below(source, roots)
    if path is not None:
        return Location(source, local_files(), path)
    raise BadData(f"{field}: {source!r} is not on this host below the data roots ({_roots_text(data_roots)})")


def _locate_url(source: str, field: str) -> Location:
    import fsspec

    try:
        filesystem, path = fsspec.core.url_to_fs(source)
        exists = filesystem.exists(path)
    except Exception as error:  # each driver has errors of its own; fsspec's name the package that is missing
        why = without_paths(str(error)) or type(error).__name__
        raise BadData(f"{field}: cannot open {source!r}: {why}") from None
    if not exists:
        raise BadData(f"{field}: there is nothing at {source!r}")
    return Location(source, filesystem, path)


def _is_below(url: str, root: str) -> bool:
    """Whether a URL is a root or below it, compared part by part. A URL that could mean another place is not."""
    if not is_plain_url(url):
        return False
    scheme, _, rest = url.partition("://")
    parts = rest.removesuffix("/").split("/")
    root_scheme, separator, root_rest = root.partition("://")
    above = root_rest.rstrip("/").split("/") if root_rest else []
    return bool(separator) and scheme == root_scheme and parts[: len(above)] == above


def _roots_text(data_roots: Sequence[str]) -> str:
    return ", ".join(data_roots) or "HORA_DATA_ROOTS is not set"
