"""ImageNet weights: from this host, or from where Keras publishes them. Called by `weights` on rank 0."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keras

from jobs.model.os_errors import without_paths
from jobs.runtime.files import make_private
from trainer.errors import BadData, why_no_space
from trainer.models.applications import BASE, WeightsFile
from trainer.models.zoo import NETWORKS

_CONNECT_LIMIT_S = 10.0


def load_imagenet(model: keras.Model, name: str, weights_dir: Path) -> None:
    """Give the base its ImageNet weights. They are fetched into `weights_dir` if the host has none.

    Raises `BadData` if there are none, or if they cannot be found, fetched or read.
    """
    network = NETWORKS.get(name)
    if network is None or network.imagenet is None:
        names = ", ".join(name for name, network in NETWORKS.items() if network.imagenet)
        raise BadData(f"model.weights: there are no ImageNet weights of {name}; there are of: {names}")
    height, width = model.input_shape[1:3]
    file = network.imagenet((height, width))
    keras_home = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras")
    candidates = (weights_dir / file.name, keras_home / "models" / file.name)
    path = next((place for place in candidates if place.is_file()), None) or _fetch(name, file, weights_dir)
    try:
        model.get_layer(BASE).load_weights(path)
    except (OSError, RuntimeError, KeyError, ValueError, TypeError) as error:
        why = without_paths(str(error))
        raise BadData(f"model.weights: {path.name} does not hold the ImageNet weights of {name}: {why}") from None
    print(f"starting from the ImageNet weights in {path}", flush=True)


def _fetch(name: str, file: WeightsFile, weights_dir: Path) -> Path:
    """Fetch a file under a name that it takes only when it is whole and its digest is right."""
    try:
        make_private(weights_dir)
        with tempfile.TemporaryDirectory(dir=weights_dir) as folder, _network_limit(_CONNECT_LIMIT_S):
            path = keras.utils.get_file(file.name, file.url, file_hash=file.md5, cache_dir=folder, cache_subdir="")
            os.replace(path, weights_dir / file.name)
    except Exception as error:  # Keras raises bare `Exception`
        if why_no_space(error):
            raise
        print(f"cannot fetch {file.url}: {error}", flush=True)
        raise BadData(
            f"model.weights: the ImageNet weights of {name} are not on this host and cannot be fetched: "
            f"place {file.name} in {weights_dir}"
        ) from None
    return weights_dir / file.name


@contextmanager
def _network_limit(seconds: float) -> Iterator[None]:
    """Limit the time of each connection and each read from the network: Keras sets no limit."""
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(seconds)
    try:
        yield
    finally:
        socket.setdefaulttimeout(before)
