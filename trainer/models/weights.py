"""The weights that a network starts from: ImageNet's, a file's, or another job's. Called by the session on rank 0.

Keras never opens the given file, and nothing in it is ever run (`trainer.models.weight_files`). The network's own
`.weights.h5` file is written first. It says which layers are wanted. It is filled with the arrays of the given file and
then loaded. So it is known exactly what was loaded, for any layers.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path

import h5py
import keras
import numpy as np

from jobs.model.launch import Launch
from jobs.model.os_errors import without_paths
from jobs.model.spec import Spec
from trainer.data.location import locate
from trainer.data.texts import VOCABULARY_ATTRIBUTE
from trainer.errors import BadData, why_no_space
from trainer.models.applications import BASE
from trainer.models.imagenet import imagenet_file
from trainer.models.layer_matching import DoesNotFit, WantedLayer, match, text_of
from trainer.models.weight_files import DAMAGE, Elsewhere, SavedLayer, is_bomb, layers_in, opened
from trainer.models.zoo import HEAD

_MOST_NAMED = 5  # layers, in a text


class _WrongValues(Exception):
    """A layer fits, and what a file has for it cannot be used. The text continues a sentence about the file."""


def load_initial_weights(model: keras.Model, spec: Spec, launch: Launch, *, vocabulary: str | None = None) -> None:
    """Give the network the weights that `model.weights` names. A head of another shape keeps its random weights.

    `vocabulary` is the digest of the words that a network for texts knows. Raises `BadData` if the weights cannot be
    found or read, or do not fit.
    """
    weights = spec.own_model.weights
    if weights == "none":
        return
    with tempfile.TemporaryDirectory() as folder:
        if weights == "imagenet":
            path = imagenet_file(spec.own_model.name, model.input_shape[1:3], Path(launch.weights_dir))
            text = _load(model, path, path.name, folder, with_head=False)
            print(f"starting from the ImageNet weights in {path}: {text}", flush=True)
            return
        try:
            path = _local_copy(spec, launch, folder)
        except DAMAGE as error:
            raise _unreadable(weights, error) from None
        text = _load(model, path, weights, folder, vocabulary=vocabulary)
        print(f"starting from the weights of {weights}: {text}", flush=True)


def _local_copy(spec: Spec, launch: Launch, folder: str) -> Path:
    """The file, fetched into `folder` if it is not on this host."""
    weights = spec.own_model.weights
    if weights.startswith("job:"):
        path = launch.job_weights
        if path is None or not Path(path).is_file():
            where = f" ({path})" if path else ""
            raise BadData(f"model.weights: job {weights.removeprefix('job:')} left no weights on this host{where}")
        return Path(path)
    if not spec.own_model.weights_are_a_file:
        raise BadData(f"model.weights: {weights!r} is not none, imagenet, job:ID or an .h5, .hdf5 or .keras file")
    location = locate(weights, launch.data_roots, field="model.weights")
    if location.local is not None:
        return location.local
    copy = Path(folder, f"given{Path(weights).suffix}")
    location.filesystem.get_file(location.path, str(copy))
    return copy


def _load(
    model: keras.Model, path: Path, source: str, folder: str, *, with_head: bool = True, vocabulary: str | None = None
) -> str:
    """Fill the network with the weights in a file, which `source` names in errors. Say what was matched.

    Raises `BadData`.
    """
    own_path = Path(folder, "own.weights.h5")
    model.save_weights(own_path)
    with h5py.File(own_path, "r") as own_file:
        own_layers = layers_in(own_file)
    own_head = next((layer for layer in own_layers if _is_head(layer)), None)
    wanted = _in_order(model, [layer for layer in own_layers if layer is not own_head])
    try:
        with opened(path, folder) as file, h5py.File(own_path, "r+") as own_file:
            if vocabulary is not None:
                _check_vocabulary(file, vocabulary)
            pairs, text = _pairs(model, wanted, own_head, layers_in(file), with_head=with_head)
            for own, given in pairs:
                _copy(own_file, own, file, given)
    except DoesNotFit as error:
        raise BadData(f"model.weights: {source} does not fit {model.name}: {error}") from None
    except _WrongValues as error:
        raise BadData(f"model.weights: {source} {error}") from None
    except Elsewhere:
        raise BadData(f"model.weights: {source} links to data elsewhere; it has to hold all weights itself") from None
    except DAMAGE as error:
        raise _unreadable(source, error) from None
    model.load_weights(own_path)
    return text


def _unreadable(source: str, error: BaseException) -> BaseException:
    """The error to raise for one of `DAMAGE`. A full disk, for a copy of the file, is the host's fault."""
    if why_no_space(error):
        return error
    return BadData(f"model.weights: {source} cannot be read: {without_paths(str(error))}")


def _check_vocabulary(file: h5py.File, vocabulary: str) -> None:
    """Raise `_WrongValues` if a file says that its weights are for other words. Only files of jobs say it."""
    if file.attrs.get(VOCABULARY_ATTRIBUTE, vocabulary) != vocabulary:
        raise _WrongValues(
            "was trained with another vocabulary: train on the same texts, with the same dataset.text_length and "
            "dataset.vocabulary"
        )


def _pairs(
    model: keras.Model,
    wanted: Sequence[WantedLayer],
    own_head: SavedLayer | None,
    in_file: Sequence[SavedLayer],
    *,
    with_head: bool,
) -> tuple[list[tuple[SavedLayer, SavedLayer]], str]:
    """Each layer of the network with that of the file, both as they are saved, and what was matched in words.

    Raises `DoesNotFit`.
    """
    found = match(wanted, [layer for layer in in_file if not _is_head(layer)])
    pairs = [(layer.saved, found.layers[layer.saved.group]) for layer in wanted]
    head = _head_in(in_file, found.others) if own_head else None
    others = [layer for layer in found.others if layer is not head]
    if others and not _has_base(model):
        raise DoesNotFit(f"the network has no layer {text_of(others[0])}")
    ways = ", ".join(f"{count} {way}" for way, count in found.ways.items())
    how = f": {ways}" if len(found.ways) > 1 else f" {''.join(found.ways)}"
    words = [f"{len(wanted)} of {len(wanted)} layers of {model.name}{how}"]
    # A head on layers that are not taken is for features that are not here.
    if own_head and head and with_head and not others and head.shapes == own_head.shapes:
        pairs.append((own_head, head))
        words.append("the head too")
    elif own_head:
        outputs = f" ({head.shapes[-1][0]} outputs there, {own_head.shapes[-1][0]} here)" if head else ""
        words.append(f"the head is new{outputs}")
    if others:
        more = f" and {len(others) - _MOST_NAMED} more" if len(others) > _MOST_NAMED else ""
        words.append(f"not taken: {', '.join(map(text_of, others[:_MOST_NAMED]))}{more}")
    return pairs, "; ".join(words)


def _head_in(in_file: Sequence[SavedLayer], others: Sequence[SavedLayer]) -> SavedLayer | None:
    """The head in a file: the layer of that name, or the only one besides the network's. None if that is no head."""
    named = [layer for layer in in_file if _is_head(layer)]
    candidates = named or others
    is_dense = len(candidates) == 1 and [len(shape) for shape in candidates[0].shapes] == [2, 1]
    return candidates[0] if is_dense else None


def _in_order(model: keras.Model, layers: Sequence[SavedLayer]) -> list[WantedLayer]:
    """The layers in the order of the network, with their depths as far as Keras knows them."""
    inner, network = (model.get_layer(BASE), "layers/functional/layers") if _has_base(model) else (model, "layers")
    numbers = {layer.name: number for number, layer in enumerate(inner.layers)}
    depths = {layer.name: depth for depth, here in inner._operations_by_depth.items() for layer in here}

    def wanted(layer: SavedLayer) -> WantedLayer:
        name = layer.name.partition("/")[0]
        inside = layer.network == network
        return WantedLayer(layer, numbers[name] if inside else -1, depths[name] if inside else None)

    return sorted(map(wanted, layers), key=lambda layer: (layer.number, layer.saved.place))


def _copy(own_file: h5py.File, own: SavedLayer, file: h5py.File, given: SavedLayer) -> None:
    """Copy the arrays of a layer into the network's own file. Raises `_WrongValues`."""
    for own_path, path in zip(own.paths, given.paths, strict=True):
        target, source = own_file[own_path], file[path]
        if source.dtype.kind != target.dtype.kind:
            raise _WrongValues(f"has {source.dtype} in layer {own.name}, which holds {target.dtype}")
        if is_bomb(source):
            raise _WrongValues(f"packs layer {own.name} in chunks that are larger than the layer")
        with np.errstate(over="ignore"):
            array = source[...].astype(target.dtype)
        if not np.isfinite(array).all():
            raise _WrongValues(f"has values in layer {own.name} that are not finite")
        target[...] = array


def _has_base(model: keras.Model) -> bool:
    return any(layer.name == BASE for layer in model.layers)


def _is_head(layer: SavedLayer) -> bool:
    return layer.name.rpartition("/")[2] == HEAD
