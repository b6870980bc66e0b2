"""Initial weights: fitting weights are taken bit for bit, others are refused; nothing else is read or run."""

import os
from pathlib import Path
from typing import Any

import fsspec
import h5py
import keras
import numpy as np
import pytest

from tests.weights import all_equal, facts, launch, spec, started_model, values
from trainer.errors import BadData
from trainer.models import build_model, load_initial_weights


@pytest.fixture
def lenet5(tmp_path: Path) -> keras.Model:
    """A network whose weights lie in model.weights.h5 below the data root."""
    model = build_model(spec("lenet5", seed=7, dropout=0.3), facts(16, 16, 1))
    model.save_weights(tmp_path / "model.weights.h5")
    return model


@pytest.mark.parametrize("precision", ["float32", "mixed_float16"])
def test_a_file_below_the_data_roots_gives_every_weight(tmp_path: Path, lenet5: keras.Model, precision: str) -> None:
    asked = spec("lenet5", "model.weights.h5").model_copy(update={"precision": precision})
    assert all_equal(started_model(tmp_path, asked, facts(16, 16, 1)), lenet5)


def test_weights_of_another_job_are_taken_without_a_head_for_other_classes(
    tmp_path: Path, lenet5: keras.Model, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = spec("lenet5", "job:1aagd4bvydhb")
    model = started_model(tmp_path, asked, facts(16, 16, 1, classes=3), job_weights=tmp_path / "model.weights.h5")
    assert all_equal(model, lenet5, head=False)
    assert values(model)[-2].tolist() == values(build_model(asked, facts(16, 16, 1, classes=3)))[-2].tolist()
    assert "the head of job:1aagd4bvydhb is for other classes" in capsys.readouterr().out


def test_base_weights_are_taken_from_a_whole_network(tmp_path: Path) -> None:
    trained = build_model(spec("mobilenet_v2", seed=7), facts(32, 32, 1, classes=4))
    trained.save_weights(tmp_path / "model.weights.h5")
    model = started_model(tmp_path, spec("mobilenet_v2", "model.weights.h5"), facts(40, 32, 3, classes=2))
    assert all_equal(model, trained, head=False)
    assert {variable.path for variable in model.trainable_variables} == {"logits/kernel", "logits/bias"}


def test_optimizer_state_in_the_file_is_ignored(tmp_path: Path, lenet5: keras.Model) -> None:
    lenet5.compile("adam", "sparse_categorical_crossentropy")
    lenet5.optimizer.build(lenet5.trainable_variables)
    lenet5.save_weights(tmp_path / "model.weights.h5")
    assert "optimizer" in h5py.File(tmp_path / "model.weights.h5")
    assert all_equal(started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1)), lenet5)


def test_a_file_at_a_url_is_fetched(tmp_path: Path, lenet5: keras.Model) -> None:
    filesystem = fsspec.filesystem("memory")
    filesystem.put_file(str(tmp_path / "model.weights.h5"), "/models/model.weights.h5")
    asked = spec("lenet5", "memory://models/model.weights.h5")
    model = build_model(asked, facts(16, 16, 1))
    told = launch(tmp_path, asked).model_copy(update={"data_roots": ["memory://models"]})
    load_initial_weights(model, asked, told)
    filesystem.rm("/models", recursive=True)
    assert all_equal(model, lenet5)


@pytest.mark.parametrize(
    ("name", "shape", "sentence"),
    [
        (
            "lenet5",
            (16, 16, 3),
            r"does not fit lenet5: layer conv2d\S*, \(5, 5, 3, 6\), has the shape \(5, 5, 1, 6\) there",
        ),
        ("lenet5", (32, 32, 1), r"layer dense\S*, \(576, 120\), has the shape \(1024, 120\) there"),
        ("convnet7", (16, 16, 1), r"layer conv2d\S*, \(3, 3, 1, 32\), has the shape \(5, 5, 1, 6\) there"),
        ("mlp", (16, 16, 1), r"layer dense\S*, \(256, 128\), has the shape \(1024, 120\) there"),
    ],
)
@pytest.mark.usefixtures("lenet5")
def test_weights_of_another_network_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, int, int], sentence: str
) -> None:
    with pytest.raises(BadData, match=sentence):
        started_model(tmp_path, spec(name, "model.weights.h5"), facts(*shape))


def test_weights_with_additional_layers_are_refused(tmp_path: Path, lenet5: keras.Model) -> None:
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        file["layers/conv2d_2/vars/0"] = np.zeros((3, 3, 6, 6), np.float32)
    with pytest.raises(BadData, match=r"does not fit lenet5, which has no layer /layers/conv2d_2/vars, \(3, 3, 6, 6\)"):
        started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1))


def test_a_file_that_contains_itself_is_read_once(tmp_path: Path, lenet5: keras.Model) -> None:
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        file["layers/conv2d/again"] = file["/"]
    assert all_equal(started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1)), lenet5)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _blank(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:600] + b"\xff" * 3400 + content[4000:])


def _no_hdf5(path: Path) -> None:
    path.write_bytes(b"\x80\x04cos\nsystem\n(S'true'\ntR.")  # a pickle


def _not_finite(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        file["layers/conv2d/vars/0"][0] = np.nan


def _texts(path: Path) -> None:
    with h5py.File(path, "r+") as file:
        del file["layers/conv2d/vars/0"]
        file["layers/conv2d/vars/0"] = "weights"


def _a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_cut, "model.weights: model.weights.h5 cannot be read: "),
        (_blank, "model.weights: model.weights.h5 cannot be read: "),
        (_no_hdf5, "model.weights: model.weights.h5 cannot be read: "),
        (_a_folder, "model.weights: model.weights.h5 cannot be read: "),
        (_not_finite, r"model.weights.h5 has values in layer conv2d\S* that are not finite"),
        (_texts, r"layer conv2d\S*, \(5, 5, 1, 6\), is not in it"),
    ],
)
@pytest.mark.usefixtures("lenet5")
def test_damaged_file_is_bad_data(tmp_path: Path, damage: Any, sentence: str) -> None:
    damage(tmp_path / "model.weights.h5")
    with pytest.raises(BadData, match=sentence):
        started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1))


def _external_link(file: h5py.File, elsewhere: Path) -> None:
    del file["layers/conv2d"]
    file["layers/conv2d"] = h5py.ExternalLink(str(elsewhere), "layers/conv2d")


def _soft_link(file: h5py.File, elsewhere: Path) -> None:
    del file["layers/conv2d"]
    file["layers/conv2d"] = h5py.SoftLink("/layers/conv2d_1")


def _virtual_dataset(file: h5py.File, elsewhere: Path) -> None:
    dataset = file["layers/conv2d/vars/0"]
    layout = h5py.VirtualLayout(shape=dataset.shape, dtype=dataset.dtype)
    layout[...] = h5py.VirtualSource(str(elsewhere), "layers/conv2d/vars/0", shape=dataset.shape)
    del file["layers/conv2d/vars/0"]
    file.create_virtual_dataset("layers/conv2d/vars/0", layout)


def _external_storage(file: h5py.File, elsewhere: Path) -> None:
    shape = file["layers/conv2d/vars/0"].shape
    del file["layers/conv2d/vars/0"]
    file.create_dataset("layers/conv2d/vars/0", shape, "f4", external=[(str(elsewhere), 0, 4 * int(np.prod(shape)))])


@pytest.mark.parametrize("make", [_external_link, _soft_link, _virtual_dataset, _external_storage])
@pytest.mark.usefixtures("lenet5")
def test_a_file_that_points_elsewhere_is_refused(tmp_path: Path, make: Any) -> None:
    root = tmp_path / "root"
    root.mkdir()
    secret = (tmp_path / "model.weights.h5").rename(tmp_path / "secret.weights.h5")
    (root / "model.weights.h5").write_bytes(secret.read_bytes())
    with h5py.File(root / "model.weights.h5", "r+") as file:
        make(file, secret)
    with pytest.raises(BadData, match=r"model\.weights\.h5 links to data elsewhere"):
        started_model(root, spec("lenet5", "model.weights.h5"), facts(16, 16, 1))


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ("elsewhere.weights.h5", "model.weights: 'elsewhere.weights.h5' is not on this host below the data roots"),
        ("../secret.weights.h5", "is not on this host below the data roots"),
        ("model.keras", "model.weights: 'model.keras' is not none, imagenet, job:ID or the path of a .weights.h5 file"),
        ("model.pkl", "is not none, imagenet, job:ID or the path of a .weights.h5 file"),
        ("job:1aagd4bvydhb", r"job 1aagd4bvydhb left no weights on this host \(.*gone.weights.h5\)"),
    ],
)
def test_missing_or_unsupported_weights_are_bad_data(tmp_path: Path, weights: str, sentence: str) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.weights.h5").touch()
    with pytest.raises(BadData, match=sentence):
        started_model(root, spec("lenet5", weights), facts(16, 16, 1), job_weights=root / "gone.weights.h5")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("weights", ["model.weights.h5", "job:1aagd4bvydhb"])
def test_a_named_pipe_is_not_waited_for(tmp_path: Path, weights: str) -> None:
    os.mkfifo(tmp_path / "model.weights.h5")
    with pytest.raises(
        BadData, match=r"model\.weights\.h5 cannot be read: it is a named pipe|left no weights on this host"
    ):
        started_model(tmp_path, spec("lenet5", weights), facts(16, 16, 1), job_weights=tmp_path / "model.weights.h5")


def test_error_for_imagenet_weights_names_the_networks_that_have_them(tmp_path: Path) -> None:
    with pytest.raises(BadData, match="no ImageNet weights of lenet5; there are of: resnet50, xception, mobilenet_v2"):
        started_model(tmp_path, spec("lenet5", "imagenet"), facts(16, 16, 1))
