"""Finds the format of a source and its collections, and the module that reads it. See `trainer.data.opening`.

The readers of images and Parquet are imported only when they are needed, because both are slow to import.
"""

from collections.abc import Callable, Iterator
from posixpath import basename

from jobs.model.spec import DatasetSpec, is_synthetic
from jobs.model.tasks import AnyTask
from trainer.data import cifar, idx, npz, synthetic
from trainer.data.interfaces import Collection, Host
from trainer.data.listing import Listing, listing, special_file_error
from trainer.data.location import Location, locate
from trainer.data.registered import REGISTERED
from trainer.data.tfrecord import source as tfrecord
from trainer.errors import BadData

Collections = dict[str, Collection]  # by part: train; validation and test too if the data has them apart

_IMAGES = (".jpg", ".jpeg", ".png", ".bmp", ".gif")
_PARQUET = (".parquet", ".pq")
_NPZ = (".npz",)
_DEPTH = 4  # of nested folders that are searched
_UNDERSTOOD = (
    "a folder with a sub-folder of images for each class, .parquet files, an .npz file, IDX files, the binary files"
    " of CIFAR and TFRecord files are understood"
)


def collections_of(
    source: str, spec: DatasetSpec, host: Host, *, expected_format: str, field: str, task: AnyTask = "auto"
) -> tuple[str, Collections]:
    """The format of what `source` names, and its collections; `expected_format` is a format or `auto`.

    The name of a registered dataset hides a path of the same name. Raises `BadData`, also if the labels are not for
    the `task`.
    """
    format_, collections = _opened(source, spec, host, task, expected_format=expected_format, field=field)
    for collection in collections.values():
        if task not in {"auto", collection.task}:
            raise BadData(f"task: {task} does not fit {collection.name}, whose labels are for {collection.task}")
    return format_, collections


def _opened(
    source: str, spec: DatasetSpec, host: Host, task: AnyTask, *, expected_format: str, field: str
) -> tuple[str, Collections]:
    if is_synthetic(source):
        _check_format("synthetic", source, expected_format)
        return "synthetic", synthetic.collections(source, spec, field=field)
    if source in REGISTERED:
        _check_format("arrays", source, expected_format)
        return "arrays", REGISTERED[source](host.data_roots)
    if expected_format == "synthetic":
        raise BadData(f"{field}: {source!r} is no synthetic data: set it to 'synthetic'")
    location, entries, name = _found(source, host, expected_format=expected_format, field=field)
    return name, _OPENERS[name](location, entries, spec, host, task)


def files_of(
    source: str, host: Host, *, expected_format: str, field: str
) -> tuple[Location, list[tuple[str, str]]] | None:
    """The place of a source, and the files there that a training reads: the name below the source, and the path.

    A source that is a file has no name. None for the name of a dataset. Raises `BadData`.
    """
    if is_synthetic(source) or source in REGISTERED:
        return None
    location, entries, name = _found(source, host, expected_format=expected_format, field=field)
    return location, _FILES[name](location, entries, host)


def _found(source: str, host: Host, *, expected_format: str, field: str) -> tuple[Location, Listing, str]:
    location = locate(source, host.data_roots, field=field)
    entries = listing(location, host.data_roots)
    names: list[str] = []
    for name in _formats(location, entries, host):
        if expected_format in {"auto", name}:
            return location, entries, name
        names.append(name)
    if names:
        _check_format(names[0], source, expected_format)
    if archive := cifar.better_than_pickles(entries.files):
        raise BadData(
            f"{field}: {source!r} is CIFAR's Python version: pickles, which are never opened, as they can run code; use"
            f" its binary version, {archive}"
        )
    raise BadData(f"{field}: {source!r} is {_described(entries)}: {_UNDERSTOOD}")


def _check_format(name: str, source: str, expected_format: str) -> None:
    if expected_format not in {"auto", name}:
        raise BadData(f"dataset.format: {expected_format} was given, but {source!r} is {name}")


def _formats(location: Location, entries: Listing, host: Host) -> Iterator[str]:
    """The formats of the data there, in the sequence of the search: the folder itself, then the folders below it."""
    _check_special_files(location, entries)
    if entries.with_suffix(_PARQUET):
        yield "parquet"
    if (
        cifar.is_cifar(entries.files)
        or any(idx.is_idx(path) for path in entries.files)
        or (not entries.is_folder and entries.with_suffix(_NPZ))
    ):
        yield "arrays"
    if any(map(tfrecord.is_tfrecord, entries.files)):
        yield "tfrecord"
    visited: set[str] = set()  # a link may lead back up
    folders = list(entries.folders)
    for _ in range(_DEPTH):
        deeper: list[str] = []
        for path in folders:
            if path in visited:
                continue
            visited.add(path)
            below = listing(location, host.data_roots, path)
            _check_special_files(location, below)
            if below.with_suffix(_IMAGES):
                yield "images"
            if below.with_suffix(_PARQUET):
                yield "parquet"
            if any(map(tfrecord.is_tfrecord, below.files)):
                yield "tfrecord"
            deeper += below.folders
        folders = deeper


def _check_special_files(location: Location, entries: Listing) -> None:
    """Raise `BadData` if a named pipe, a socket or a device has the name of a data file."""
    for path in entries.special_files:
        if path.lower().endswith((*_IMAGES, *_PARQUET, *_NPZ)) or not entries.is_folder or _is_of_data(path):
            raise special_file_error(location, path)


def _is_of_data(path: str) -> bool:
    return idx.is_idx(path) or cifar.is_file_of_cifar(path) or tfrecord.is_tfrecord(path)


def _open_images(location: Location, entries: Listing, spec: DatasetSpec, host: Host, task: AnyTask) -> Collections:
    from trainer.data.images import source as images

    return images.collections(location, spec, host)


def _open_parquet(location: Location, entries: Listing, spec: DatasetSpec, host: Host, task: AnyTask) -> Collections:
    from trainer.data.parquet import source as parquet

    return parquet.collections(location, spec, host, task)


def _open_tfrecord(location: Location, entries: Listing, spec: DatasetSpec, host: Host, task: AnyTask) -> Collections:
    return tfrecord.collections(location, spec, host, task)


def _open_arrays(location: Location, entries: Listing, spec: DatasetSpec, host: Host, task: AnyTask) -> Collections:
    if entries.with_suffix(_NPZ) and not entries.is_folder:
        return npz.collections(location, spec.image_size, task)
    if cifar.is_cifar(entries.files):
        return cifar.collections(location, entries.files)
    return idx.collections(location, _beside(location, entries, host), spec.image_size, task)


def _beside(location: Location, entries: Listing, host: Host) -> list[str]:
    """The files of the folder; of a file, also those beside it: the labels of IDX are in a file of their own."""
    folder = entries if entries.is_folder else listing(location, host.data_roots, location.path.rpartition("/")[0])
    return list(folder.files)


def _image_files(location: Location, entries: Listing, host: Host) -> list[tuple[str, str]]:
    from trainer.data.images.source import files_at

    return files_at(location, host)


def _parquet_files(location: Location, entries: Listing, host: Host) -> list[tuple[str, str]]:
    from trainer.data.parquet.source import files_at

    return [(relative, file.path) for relative, file in files_at(location, host)]


def _array_files(location: Location, entries: Listing, host: Host) -> list[tuple[str, str]]:
    if entries.with_suffix(_NPZ) and not entries.is_folder:
        return [("", location.path)]
    if cifar.is_cifar(entries.files):
        return [(basename(path), path) for path in cifar.files_at(location, entries.files)]
    return [(basename(path), path) for path in idx.files_at(location, _beside(location, entries, host))]


_OPENERS: dict[str, Callable[[Location, Listing, DatasetSpec, Host, AnyTask], Collections]] = {
    "images": _open_images,
    "parquet": _open_parquet,
    "arrays": _open_arrays,
    "tfrecord": _open_tfrecord,
}
_FILES: dict[str, Callable[[Location, Listing, Host], list[tuple[str, str]]]] = {
    "images": _image_files,
    "parquet": _parquet_files,
    "arrays": _array_files,
    "tfrecord": lambda location, entries, host: tfrecord.files_at(location, host),
}


def _described(entries: Listing) -> str:
    """The data at the location in words, for a message to a person who expected another format."""
    if not entries.is_folder:
        return "one image" if entries.with_suffix(_IMAGES) else "a file of no format that is known"
    if not entries.files and not entries.folders:
        return "an empty folder"
    if entries.with_suffix(_IMAGES):
        return "a folder of images without a sub-folder for each class"
    if entries.with_suffix(_NPZ):
        return f"a folder: name the .npz file in it, {basename(entries.with_suffix(_NPZ)[0])!r}"
    if entries.folders:
        return "a folder whose sub-folders hold neither images nor .parquet files"
    return "a folder of no format that is known"
