"""ImageNet weights: used from this host if they are there, else downloaded, with a time limit."""

import socket
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import h5py
import keras
import numpy as np
import pytest
from keras.src.legacy.saving import legacy_h5_format

from tests.networks import facts
from tests.weights import all_equal, spec, started_model
from trainer.errors import BadData
from trainer.models.applications import mobilenet_v2_weights
from trainer.models.imagenet import imagenet_file

MOBILENET_V2 = "mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0"
XCEPTION = "xception_weights_tf_dim_ordering_tf_kernels_notop.h5"


@pytest.fixture
def proxy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[socket.socket]:
    """Stands in for the network: requests arrive here and get no answer. Keras's own folder is empty."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{listener.getsockname()[1]}")
        monkeypatch.delenv("no_proxy", raising=False)
        monkeypatch.setattr(urllib.request, "_opener", None)  # urllib keeps the proxies of its first use
        monkeypatch.setenv("KERAS_HOME", str(tmp_path / "keras"))
        yield listener


def was_asked(proxy: socket.socket) -> bool:
    try:
        connection, _ = proxy.accept()
    except BlockingIOError:
        return False
    connection.close()
    return True


@pytest.mark.parametrize(
    ("place", "name", "size"),
    [
        ("weights", f"{MOBILENET_V2}_224_no_top.h5", 32),
        ("keras/models", f"{MOBILENET_V2}_96_no_top.h5", 96),
        ("weights", f"{MOBILENET_V2}_224.h5", 32),
        ("weights", "mobilenet_v2.weights.h5", 96),
    ],
)
def test_a_file_on_the_host_is_found_without_a_download(
    tmp_path: Path, proxy: socket.socket, place: str, name: str, size: int
) -> None:
    path = tmp_path / place / name
    path.parent.mkdir(parents=True)
    path.touch()
    assert imagenet_file("mobilenet_v2", (size, size), tmp_path / "weights") == path
    assert not was_asked(proxy)


@pytest.mark.usefixtures("proxy")
def test_imagenet_weights_on_the_host_are_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    base = keras.applications.MobileNetV2(include_top=False, weights=None, input_shape=(32, 32, 3))
    for number, weight in enumerate(base.weights):  # values that no initializer gives
        weight.assign(np.random.default_rng(number).random(weight.shape))
    path = tmp_path / "weights" / f"{MOBILENET_V2}_224_no_top.h5"
    path.parent.mkdir()
    with h5py.File(path, "w") as file:
        legacy_h5_format.save_weights_to_hdf5_group(file, base)
    model = started_model(tmp_path, spec("mobilenet_v2", "imagenet"), facts(32, 32, 3, classes=1000))
    assert all_equal(model.get_layer("base"), base)
    assert f"{path.name}: 104 of 104 layers of mobilenet_v2 by name; the head is new" in capsys.readouterr().out


@pytest.mark.parametrize("network", ["refuses", "is silent"])
def test_unavailable_imagenet_weights_are_named_with_their_path(
    tmp_path: Path, proxy: socket.socket, network: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if network == "refuses":
        proxy.close()
    monkeypatch.setattr("trainer.models.imagenet._CONNECT_LIMIT_S", 0.2)
    with pytest.raises(BadData) as told:
        started_model(tmp_path, spec("xception", "imagenet"), facts(71, 71, 3, classes=2))
    assert str(told.value) == (
        "model.weights: the ImageNet weights of xception are not on this host and cannot be fetched: "
        f"place {XCEPTION} in {tmp_path}/weights"
    )
    assert network == "refuses" or was_asked(proxy)
    assert list((tmp_path / "weights").iterdir()) == []
    assert socket.getdefaulttimeout() is None


def test_a_damaged_file_of_imagenet_weights_is_reported_in_one_sentence(tmp_path: Path, proxy: socket.socket) -> None:
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / mobilenet_v2_weights((32, 32)).name).write_bytes(b"<html>not found</html>")
    with pytest.raises(BadData, match=r"_1\.0_224_no_top\.h5 cannot be read: "):
        started_model(tmp_path, spec("mobilenet_v2", "imagenet"), facts(32, 32, 3, classes=2))
    assert not was_asked(proxy)
