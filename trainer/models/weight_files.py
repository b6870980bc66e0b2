"""The layers that a file of weights holds, in each format that Keras writes. Called by `weights`.

    .weights.h5, .keras   Keras 3: a group for each layer, `layers/conv2d_3/vars/0`. The groups of one class are
                          numbered as the layers follow each other in their network. `vars` has the layer's name.
    .h5, .hdf5            Keras 2: attributes list the layers in their order, and the arrays of each layer.

Keras never opens the file. h5py lists its arrays, and nothing else of it is used. An array is read when its shape is
known to fit.
"""

import re
import shutil
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count, takewhile
from math import prod
from pathlib import Path
from typing import Any

import h5py

from jobs.runtime.files import open_regular, size_text

# The errors of h5py and zipfile on a damaged file.
DAMAGE = (OSError, RuntimeError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error)

_MEMBER = "model.weights.h5"  # of a .keras file, which is a zip file
_MOST_BYTES = 4 << 30  # of that member, unpacked
_MOST_MEMBERS = 10_000
_MOST_OBJECTS = 100_000  # groups and arrays; EfficientNet has about 2,000
_NETWORKS = ("layers", "_layer_checkpoint_dependencies")  # the latter in Keras 2.13
_COUNTER = re.compile(r"_(\d+)$")

Place = tuple[tuple[str, int], ...]


class Elsewhere(Exception):
    """A file does not hold its arrays itself."""


@dataclass(frozen=True)
class SavedLayer:
    """A layer with weights, as a file holds it."""

    name: str  # with the layer that it is a part of: block1_attention/query; empty if the file does not say
    kind: str  # its class as in a path: conv2d, multi_head_attention/query_dense; empty in files of Keras 2
    network: str  # the group of the network that it is a layer of; empty if it is none, as an optimizer
    place: Place  # layers of one kind and network, sorted by it, are in the order of the network
    paths: tuple[str, ...]  # of its arrays, in the order of the layer's variables
    shapes: tuple[tuple[int, ...], ...]

    @property
    def group(self) -> str:
        """The path of the group with its arrays."""
        return self.paths[0].rpartition("/")[0]


@contextmanager
def opened(path: Path, folder: str) -> Iterator[h5py.File]:
    """The HDF5 file at `path`. That of a `.keras` file is unpacked into `folder` first.

    Raises `DAMAGE` if it is none, or if it is too large.
    """
    if path.suffix == ".keras":
        path = _unpacked(path, Path(folder, _MEMBER))
    with open(open_regular(path), "rb") as binary, h5py.File(binary, "r") as file:
        yield file


def layers_in(file: h5py.File) -> list[SavedLayer]:
    """All layers with weights. Raises `Elsewhere`, and `DAMAGE` if the file contradicts itself."""
    arrays = _arrays(file)
    for root in ("", "/model_weights"):  # the latter if a whole network was saved
        group = file.get(root or "/")
        if isinstance(group, h5py.Group) and (names := _texts(group, "layer_names")):
            return list(_layers_by_attributes(file, root, names, arrays))
    return list(_layers_by_groups(file, arrays))


def _unpacked(path: Path, copy: Path) -> Path:
    with open(open_regular(path), "rb") as binary, zipfile.ZipFile(binary) as archive:
        if len(archive.infolist()) > _MOST_MEMBERS:
            raise ValueError(f"it has more than {_MOST_MEMBERS:,} members")
        if _MEMBER not in archive.namelist():
            raise ValueError(f"it has no member {_MEMBER}")
        size = archive.getinfo(_MEMBER).file_size
        if size > _MOST_BYTES:
            raise ValueError(f"{_MEMBER} has {size_text(size)}; up to {size_text(_MOST_BYTES)} are read")
        with archive.open(_MEMBER) as member, open(copy, "wb") as unpacked:  # zipfile gives no byte more than `size`
            shutil.copyfileobj(member, unpacked, 1 << 20)
    return copy


def _arrays(file: h5py.File) -> dict[str, h5py.Dataset]:
    """Every array of numbers by its path; a group that contains itself is entered once. Raises `Elsewhere`.

    HDF5 can say "this array is in that other file" in three ways; none may make a rank read what it names. Not by
    `visititems`: an error inside its callback, as damage causes, leaves h5py as a `SystemError`.
    """
    arrays: dict[str, h5py.Dataset] = {}
    groups: list[tuple[str, h5py.Group]] = [("", file["/"])]
    visited, objects = {file["/"]}, 0
    while groups:
        above, group = groups.pop()
        for name in group:
            objects += 1
            if objects > _MOST_OBJECTS:
                raise ValueError(f"it has more than {_MOST_OBJECTS:,} groups and arrays")
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise Elsewhere
            item, path = group[name], f"{above}/{name}"
            if isinstance(item, h5py.Group) and item not in visited:
                visited.add(item)
                groups.append((path, item))
            elif isinstance(item, h5py.Dataset):
                if item.is_virtual or item.external is not None:
                    raise Elsewhere
                if item.dtype.kind in "biuf" and item.shape is not None:
                    arrays[path] = item
    return arrays


def _layers_by_groups(file: h5py.File, arrays: dict[str, h5py.Dataset]) -> Iterator[SavedLayer]:
    """The layers of a file of Keras 3: each group with numbered arrays is one."""
    numbered: dict[str, dict[int, str]] = {}
    for path in arrays:
        group, _, number = path.rpartition("/")
        if number.isdecimal() and len(number) < 6:
            numbered.setdefault(group, {})[int(number)] = path
    for group, paths in numbered.items():
        if sorted(paths) != list(range(len(paths))):  # an array of it holds no numbers
            continue
        parts = group.strip("/").split("/")
        own = parts[: -1 if parts[-1] == "vars" else None]
        depth = max((number for number, part in enumerate(own, start=1) if part in _NETWORKS), default=0)
        names = [_name_at(file, "/".join(own[:end])) for end in range(depth + 1, len(own) + 1)]
        place = tuple(map(_counted, own))
        in_order = tuple(paths[number] for number in range(len(paths)))
        yield SavedLayer(
            name="/".join(names) if all(names) else "",
            kind="/".join(stem for stem, _ in place[depth:]),
            network="/".join(own[:depth]),
            place=place,
            paths=in_order,
            shapes=tuple(arrays[path].shape for path in in_order),
        )


def _layers_by_attributes(
    file: h5py.File, root: str, names: list[str], arrays: dict[str, h5py.Dataset]
) -> Iterator[SavedLayer]:
    """The layers of a file of Keras 2. The arrays of a network inside the network are listed as those of one layer.

    There the name of an array has the name of its layer: `conv1_conv/kernel:0`. Otherwise the group's name is the one
    to trust, as TensorFlow has numbered the others.
    """
    if len(set(names)) < len(names):
        raise ValueError("it lists a layer twice")
    for position, layer in enumerate(names):
        parts: dict[str, list[str]] = {}
        for name in _texts(_group_at(file, f"{root}/{layer}"), "weight_names"):
            path = f"{root}/{layer}/{name}"
            if path not in arrays:
                raise ValueError(f"it lists {printable(name)} of the layer {printable(layer)}, and has no such numbers")
            parts.setdefault(name.rpartition("/")[0], []).append(path)
        for number, (part, paths) in enumerate(parts.items()):
            inner = part.partition(f"{layer}/")[2] or part
            yield SavedLayer(
                name=layer if len(parts) == 1 else f"{layer}/{inner}",
                kind="",
                network=f"{root}/" if len(parts) == 1 else f"{root}/{layer}",
                place=(("", position), ("", number)),
                paths=tuple(paths),
                shapes=tuple(arrays[path].shape for path in paths),
            )


def _group_at(file: h5py.File, path: str) -> h5py.Group:
    if not isinstance(group := file.get(path), h5py.Group):
        raise ValueError(f"it lists a layer {printable(path.rpartition('/')[2])}, and has no such group")
    return group


def _name_at(file: h5py.File, path: str) -> str:
    """The name that Keras 3 writes into `vars` of a layer, also of one without weights; empty if there is none."""
    group = file.get(f"{path}/vars")
    return str(group.attrs.get("name", "")) if isinstance(group, h5py.Group) else ""


def _texts(group: h5py.Group, name: str) -> list[str]:
    """A list of texts in an attribute. A long list is in several: name0, name1 and so on."""
    several = takewhile(group.attrs.__contains__, (f"{name}{number}" for number in count()))
    texts: list[str] = []
    for key in [name] if name in group.attrs else several:
        values: Any = group.attrs[key]
        if getattr(values, "ndim", 0) != 1:
            raise ValueError(f"its attribute {key} is no list")
        texts.extend(value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value) for value in values)
    return texts


def _counted(part: str) -> tuple[str, int]:
    """`conv2d_10` as (conv2d, 10), and `conv2d` as (conv2d, 0)."""
    match = _COUNTER.search(part)
    return (part[: match.start()], int(match[1])) if match else (part, 0)


def printable(name: str) -> str:
    """A name that a file gives, in a form that does no harm in a text."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:100])


def is_bomb(dataset: h5py.Dataset) -> bool:
    """Whether reading a small array would unpack a large chunk of a file."""
    chunk_bytes: int = prod(dataset.chunks or ()) * dataset.dtype.itemsize
    return chunk_bytes > max(int(dataset.nbytes), 1 << 20)
