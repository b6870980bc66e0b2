"""Reading `.npz` archives: arrays under the names that Keras's datasets use, never pickles. See `collections`."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from jobs.model.tasks import AnyTask
from trainer.data.arrays import Values, arrays
from trainer.data.interfaces import Collection
from trainer.data.listing import reading
from trainer.data.location import Location
from trainer.errors import BadData

# The meaning of the names, in lower case. For each part the first pair that exists is taken.
_PAIRS = {
    "train": (("x_train", "y_train"), ("x", "y"), ("images", "labels")),
    "validation": (("x_val", "y_val"),),
    "test": (("x_test", "y_test"),),
}


def collections(
    location: Location, image_size: tuple[int, int] | None, task: AnyTask = "auto"
) -> dict[str, Collection]:
    """The parts that an archive holds, all for the same task. Raises `BadData`."""
    with reading(location, location.path), location.filesystem.open(location.path, "rb") as file:
        values = _read(file)
    parts = {part: _pair(pairs, values, location.source) for part, pairs in _PAIRS.items()}
    if parts["train"] is None:
        raise BadData(
            f"{location.source}: it holds {', '.join(sorted(values)) or 'nothing'}; x_train and y_train, or x and y, "
            "are needed"
        )
    opened: dict[str, Collection] = {}
    for part, (x, y) in ((part, pair) for part, pair in parts.items() if pair):  # the training part is the first one
        opened[part] = collection = arrays(
            values[x], values[y], name=f"{location.source}, {x}", image_size=image_size, task=task
        )
        task = collection.task
    return opened


def _read(file: Any) -> dict[str, Values]:
    """The arrays with one of the names above, by their names in lower case."""
    known_names = {name for pairs in _PAIRS.values() for pair in pairs for name in pair}
    archive = np.load(file, allow_pickle=False)
    if not isinstance(archive, np.lib.npyio.NpzFile):
        raise ValueError("it is a single array without labels")
    try:
        values = {name.lower(): archive[name] for name in archive.files if name.lower() in known_names}
    except ValueError as error:
        if "allow_pickle" in str(error):
            raise ValueError("it holds Python objects: save arrays of numbers or strings") from None
        raise
    for name, value in values.items():
        if not isinstance(value, np.ndarray):  # NumPy gives the bytes of a member that does not begin as one
            raise ValueError(f"{name} is no array")
    return values


def _pair(pairs: Iterable[tuple[str, str]], values: Mapping[str, Values], source: str) -> tuple[str, str] | None:
    """The first pair that exists. Half a pair is a mistake."""
    for pair in pairs:
        present = [name for name in pair if name in values]
        if len(present) == 1:
            (missing,) = set(pair) - set(present)
            raise BadData(f"{source}: it holds {present[0]} but no {missing}")
        if present:
            return pair
    return None
