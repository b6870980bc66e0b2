"""The file with ImageNet weights: on this host, or from where Keras publishes it. Called by `weights` on rank 0."""

import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import keras

from jobs.runtime.files import make_private
from trainer.errors import BadData, why_no_space
from trainer.models.applications import WeightsFile
from trainer.models.zoo import NETWORKS

_CONNECT_LIMIT_S = 10.0
# Of files that people saved with Keras: resnet50.weights.h5
_OWN_ENDINGS = ("_notop.weights.h5", ".weights.h5", "_notop.h5", ".h5", ".keras")


def imagenet_file(name: str, size: tuple[int, int], weights_dir: Path) -> Path:
    """The file with the ImageNet weights of a network for images of (height, width).

    It is fetched into `weights_dir` if the host has none. Raises `BadData` if there are none, or if they cannot be
    fetched.
    """
    network = NETWORKS.get(name)
    if network is None or network.imagenet is None:
        networks = ", ".join(name for name, network in NETWORKS.items() if network.imagenet)
        raise BadData(f"model.weights: there are no ImageNet weights of {name}; there are of: {networks}")
    file = network.imagenet(size)
    keras_models = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras", "models")
    candidates = [
        *(
            folder / file_name
            for file_name in (file.name, file.name_with_top)
            for folder in (weights_dir, keras_models)
        ),
        *(weights_dir / f"{name}{ending}" for ending in _OWN_ENDINGS),
    ]
    return next(filter(Path.is_file, candidates), None) or _fetch(name, file, weights_dir)


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
        print(f"warning: cannot fetch {file.url}: {error}", flush=True)
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
