"""The weights that a network starts from: ImageNet's, a file's, or another job's. Called by the session on rank 0.

Keras never opens the given file, and nothing in it is ever run: h5py reads arrays whose places and shapes are known
before. For that the network's own `.weights.h5` file is written first. It is filled with the arrays and then loaded. So
it is known exactly what was loaded, for any layers.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from numpy.typing import NDArray

from jobs.model.launch import Launch
from jobs.model.os_errors import without_paths
from jobs.model.spec import Spec
from jobs.runtime.files import open_regular
from trainer.data.location import locate
from trainer.errors import BadData, why_no_space
from trainer.models.imagenet import load_imagenet
from trainer.models.zoo import HEAD

Expected = dict[str, tuple[str, tuple[int, ...]]]  # by path in the file: the layer's name, and the shape

_SUFFIX = ".weights.h5"
# The errors that h5py raises on a damaged file.
_DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError)


class _Elsewhere(Exception):
    """A file does not hold its arrays itself."""


def load_initial_weights(model: keras.Model, spec: Spec, launch: Launch) -> None:
    """Give the network the weights that `model.weights` names. A head of another shape keeps its random weights.

    Raises `BadData` if they cannot be found or read, or do not fit.
    """
    weights = spec.own_model.weights
    if weights == "none":
        return
    if weights == "imagenet":
        load_imagenet(model, spec.own_model.name, Path(launch.weights_dir))
        return
    with tempfile.TemporaryDirectory() as folder:
        own_file = Path(folder, f"own{_SUFFIX}")
        model.save_weights(own_file)
        expected = _expected(own_file)
        try:
            given_file = _local_copy(weights, launch, folder)
            with open(open_regular(given_file), "rb") as opened, h5py.File(opened, "r") as file:
                arrays = _read(file, expected, weights, model.name)
        except _Elsewhere:
            raise BadData(
                f"model.weights: {weights} links to data elsewhere; it has to hold all weights itself"
            ) from None
        except _DAMAGE as error:
            if why_no_space(error):  # for a copy of the file
                raise
            raise BadData(f"model.weights: {weights} cannot be read: {without_paths(str(error))}") from None
        with h5py.File(own_file, "r+") as file:
            for path, array in arrays.items():
                file[path][...] = array
        model.load_weights(own_file)
    print(f"starting from the weights of {weights}", flush=True)


def _local_copy(weights: str, launch: Launch, folder: str) -> Path:
    """The file, fetched into `folder` if it is not on this host."""
    if weights.startswith("job:"):
        path = launch.job_weights
        if path is None or not Path(path).is_file():
            where = f" ({path})" if path else ""
            raise BadData(f"model.weights: job {weights.removeprefix('job:')} left no weights on this host{where}")
        return Path(path)
    if not weights.endswith(_SUFFIX):
        raise BadData(f"model.weights: {weights!r} is not none, imagenet, job:ID or the path of a {_SUFFIX} file")
    location = locate(weights, launch.data_roots, field="model.weights")
    if location.local is not None:
        return location.local
    copy = Path(folder, f"given{_SUFFIX}")
    location.filesystem.get_file(location.path, str(copy))
    return copy


def _expected(own_file: Path) -> Expected:
    with h5py.File(own_file, "r") as file:
        return {path: (_layer_of(dataset), dataset.shape) for path, dataset in _weights_in(file).items()}


def _read(file: h5py.File, expected: Expected, source: str, model: str) -> dict[str, NDArray[Any]]:
    """The arrays by their path. Raises `BadData` if they do not fit the network; the head need not fit."""
    arrays_in_file = _weights_in(file)
    fits = {
        path: path in arrays_in_file and arrays_in_file[path].shape == shape for path, (_, shape) in expected.items()
    }
    for path, (layer, shape) in expected.items():
        if not fits[path] and layer != HEAD:
            mismatch = f"has the shape {arrays_in_file[path].shape} there" if path in arrays_in_file else "is not in it"
            raise BadData(f"model.weights: {source} does not fit {model}: layer {layer}, {shape}, {mismatch}")
    for path in arrays_in_file:
        if path.startswith("/layers/") and path not in expected:  # Keras may have saved an optimizer beside the layers
            layer, shape = _layer_of(arrays_in_file[path]), arrays_in_file[path].shape
            raise BadData(f"model.weights: {source} does not fit {model}, which has no layer {layer}, {shape}")
    head = {path for path, (layer, _) in expected.items() if layer == HEAD}
    if not all(fits[path] for path in head):
        print(f"the head of {source} is for other classes and is not taken", flush=True)
        fits |= dict.fromkeys(head, False)
    arrays = {path: arrays_in_file[path][...] for path in expected if fits[path]}
    for path, array in arrays.items():
        if not np.isfinite(array).all():
            raise BadData(f"model.weights: {source} has values in layer {expected[path][0]} that are not finite")
    return arrays


def _weights_in(file: h5py.File) -> dict[str, h5py.Dataset]:
    return dict(_arrays(file, "", set()))


def _arrays(group: h5py.Group, path: str, visited: set[h5py.Group]) -> Iterator[tuple[str, h5py.Dataset]]:
    """Every array of numbers below a group, by its path; a group that contains itself is entered once.

    HDF5 can say "this array is in that other file" in three ways; none may make a rank read what it names. Not by
    `visititems`: an error inside its callback, as damage causes, leaves h5py as a `SystemError`.
    """
    visited.add(group)
    for name in group:
        if not isinstance(group.get(name, getlink=True), h5py.HardLink):
            raise _Elsewhere
        item, item_path = group[name], f"{path}/{name}"
        if isinstance(item, h5py.Group):
            if item not in visited:
                yield from _arrays(item, item_path, visited)
        elif isinstance(item, h5py.Dataset):
            if item.is_virtual or item.external is not None:
                raise _Elsewhere
            if item.dtype.kind in "biuf":
                yield item_path, item


def _layer_of(dataset: h5py.Dataset) -> str:
    """The name of the layer, which Keras writes into the group of its numbered weights; else the group's name."""
    return str(dataset.parent.attrs.get("name", dataset.parent.name))
