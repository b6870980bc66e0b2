"""Where a script finds its data on this host: the paths of the parts, which it may read.

Used by the launcher, and by `hora export`.

The rules are those of `trainer.data` for links and data roots. But nothing is opened: a script reads the data itself.

    NoSuchData      the data is not on this host, or not below its data roots
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jobs.model.spec import DatasetSpec
from jobs.runtime.data_roots import LOCAL_SCHEMES, fashion_mnist, folders_of, path_below, path_of

_BUILT_IN = "fashion-mnist"  # the one that is in a folder
_TRAIN = "train"
_VALIDATION = ("validation", "val", "valid")


class NoSuchData(ValueError):
    """The data is not on this host, or not below its data roots; the text is a sentence."""


@dataclass(frozen=True)
class ScriptData:
    """The paths or URLs of the parts, and the paths of this host among them with what lies beside the parts."""

    train: str | None = None
    validation: str | None = None
    readable: Sequence[str] = ()


def script_data(
    dataset: DatasetSpec | None, data_roots: Sequence[str], *, registered: str | None = None, uploads: str | None = None
) -> ScriptData:
    """The data of a script.

    `registered` is the path or URL of the registered version that the spec names, which may lie below `uploads`. If the
    data has folders for its own parts, these are the parts. Raises `NoSuchData`.
    """
    if dataset is None:
        return ScriptData()
    folders = folders_of(data_roots)
    if registered is not None:
        source = _located(registered, [*folders, *([uploads] if uploads else [])], "dataset.source")
    elif dataset.source == _BUILT_IN:
        source = _fashion_mnist(folders)
    else:
        source = _located(dataset.source, folders, "dataset.source")
    train = _part(source, [_TRAIN], folders)
    validation = None if train is None else _part(source, _VALIDATION, folders)
    readable = [source, train, validation]
    if validation is None and isinstance(dataset.validation, str):
        other = _located(dataset.validation, folders, "dataset.validation")
        validation = _part(other, [_TRAIN], folders) or other
        readable += [other, validation]
    of_this_host = [path for path in readable if path is not None and "://" not in path]
    return ScriptData(train or source, validation, list(dict.fromkeys(of_this_host)))


def _fashion_mnist(folders: Sequence[str]) -> str:
    folder = fashion_mnist(folders)
    if folder is None:
        raise NoSuchData("fashion-mnist is not on this host: install the Debian package dataset-fashion-mnist")
    return str(folder.resolve())


def _located(source: str, folders: Sequence[str], field: str) -> str:
    """The real path of a source on this host, or its URL. Raises `NoSuchData`."""
    if "://" in source and not source.startswith(LOCAL_SCHEMES):
        return source
    path = path_below(path_of(source) if "://" in source else source, folders)
    if path is None:
        raise NoSuchData(f"{field}: {source!r} is not on this host below the data roots")
    return path


def _part(source: str, names: Sequence[str], folders: Sequence[str]) -> str | None:
    """The first folder of these names in a folder of this host. A link that leads out of the data roots is none."""
    if "://" in source:
        return None
    paths = (path_below(str(Path(source, name)), [source, *folders]) for name in names)
    return next((path for path in paths if path is not None and Path(path).is_dir()), None)
