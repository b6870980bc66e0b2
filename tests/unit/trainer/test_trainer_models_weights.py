"""Initial weights: fitting weights are taken bit for bit, others are refused; nothing else is read or run."""

import os
import zipfile
from pathlib import Path
from typing import Any

import fsspec
import h5py
import keras
import numpy as np
import pytest

from tests.weights import all_equal, facts, launch, spec, started_model, values
from trainer.errors import BadData
from trainer.models import build_model, load_initial_weights, weight_files


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
    matched = "4 of 4 layers of lenet5 by order; the head is new (10 outputs there, 3 here)"
    assert capsys.readouterr().out == f"starting from the weights of job:1aagd4bvydhb: {matched}\n"


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
    with pytest.raises(
        BadData, match=r"does not fit lenet5: the network has no layer /layers/conv2d_2/vars, \(3, 3, 6, 6\)"
    ):
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


def _link_beside_the_lists_of_keras_2(file: h5py.File, elsewhere: Path) -> None:
    file.attrs["layer_names"] = [b"stolen"]
    file["stolen"] = h5py.ExternalLink(str(elsewhere), "layers/conv2d")


@pytest.mark.parametrize(
    "make", [_external_link, _soft_link, _virtual_dataset, _external_storage, _link_beside_the_lists_of_keras_2]
)
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


def _chunks(file: h5py.File) -> None:
    """An array that is small, in a chunk that unpacks to 400 MB."""
    del file["layers/conv2d/vars/0"]
    shape, dtype = (5, 5, 1, 6), "f4"
    file.create_dataset("layers/conv2d/vars/0", shape, dtype, chunks=(5, 5, 4000, 1000), maxshape=(5, 5, None, None))


def _giant(file: h5py.File) -> None:
    """An array of a petabyte, of which nothing is stored."""
    del file["layers/conv2d/vars/0"]
    file.create_dataset("layers/conv2d/vars/0", (1 << 24, 1 << 24), "f4", chunks=(1024, 1024))


def _integers(file: h5py.File) -> None:
    del file["layers/conv2d/vars/0"]
    file["layers/conv2d/vars/0"] = np.ones((5, 5, 1, 6), np.int64)


def _too_large_for_single_precision(file: h5py.File) -> None:
    del file["layers/conv2d/vars/0"]
    file["layers/conv2d/vars/0"] = np.full((5, 5, 1, 6), 1e200)


def _deep(file: h5py.File) -> None:
    """A group in a group, and so on: deeper than a call may be."""
    group = file["layers/conv2d"]
    for _ in range(1200):
        group = group.create_group("layers")


def _lying_lists(file: h5py.File) -> None:
    file.attrs["layer_names"] = [b"layers"]
    file["layers"].attrs["weight_names"] = [b"/layers/conv2d/vars/0"]


def _lists_that_repeat(file: h5py.File) -> None:
    file.attrs["layer_names"] = [b"layers"] * 1000


def _lists_of_nothing(file: h5py.File) -> None:
    file.attrs["layer_names"] = ["gone\n"]


def _lists_that_are_none(file: h5py.File) -> None:
    file.attrs["layer_names"] = 7


def _a_name_with_line_breaks(file: h5py.File) -> None:
    file["layers/conv2d/vars"].attrs["name"] = "a\nb" * 1000
    file["layers/conv2d_9/vars/0"] = np.ones(3, np.float32)
    file["layers/conv2d_9/vars"].attrs["name"] = "conv\nnext" * 1000


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (_chunks, r"packs layer conv2d\S* in chunks that are larger than the layer$"),
        (_giant, r"layer conv2d\S*, \(5, 5, 1, 6\), has the shape \(16777216, 16777216\) there$"),
        (_integers, r"has int64 in layer conv2d\S*, which holds float32$"),
        (_too_large_for_single_precision, r"has values in layer conv2d\S* that are not finite$"),
        (_lying_lists, r"cannot be read: it lists 0 of the layer layers, and has no such numbers$"),
        (_lists_that_repeat, "cannot be read: it lists a layer twice$"),
        (_lists_of_nothing, r"cannot be read: it lists a layer gone\?, and has no such group$"),
        (_lists_that_are_none, "cannot be read: its attribute layer_names is no list$"),
        (_a_name_with_line_breaks, r"has no layer conv\?next.{1,100}, \(3,\)$"),
    ],
)
@pytest.mark.usefixtures("lenet5")
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path: Path, make: Any, sentence: str) -> None:
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        make(file)
    with pytest.raises(BadData, match=sentence):
        started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1))


def test_groups_may_be_nested_deeper_than_calls(tmp_path: Path, lenet5: keras.Model) -> None:
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        _deep(file)
    assert all_equal(started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1)), lenet5)


def _keras_file(path: Path, members: dict[str, bytes]) -> None:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)


@pytest.mark.parametrize(
    ("members", "sentence"),
    [
        ({"config.json": b"{}"}, "it has no member model.weights.h5"),
        ({"../model.weights.h5": b"a"}, "it has no member model.weights.h5"),
        ({"model.weights.h5": b"\x80\x04cos\nsystem\n(S'true'\ntR."}, "file signature not found"),
        ({"model.weights.h5": bytes(3_000_000)}, r"model.weights.h5 has 3\.0 MB; up to 1\.0 MB are read"),
        ({f"assets/{number}": b"" for number in range(40)}, "it has more than 30 members"),
    ],
)
def test_a_hostile_zip_file_is_refused_in_a_sentence(
    tmp_path: Path, members: dict[str, bytes], sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_MOST_BYTES", 1_000_000)
    monkeypatch.setattr(weight_files, "_MOST_MEMBERS", 30)
    _keras_file(tmp_path / "model.keras", members)
    with pytest.raises(BadData, match=rf"^model\.weights: model\.keras cannot be read: .*{sentence}"):
        started_model(tmp_path, spec("lenet5", "model.keras"), facts(16, 16, 1))


def test_a_member_of_a_zip_file_that_lies_about_its_size_is_refused(tmp_path: Path) -> None:
    _keras_file(tmp_path / "model.keras", {"model.weights.h5": bytes(3_000_000)})
    content = (tmp_path / "model.keras").read_bytes()
    (tmp_path / "model.keras").write_bytes(
        content.replace((3_000_000).to_bytes(4, "little"), (9).to_bytes(4, "little"))
    )
    with pytest.raises(BadData, match=r"model\.keras cannot be read: "):
        started_model(tmp_path, spec("lenet5", "model.keras"), facts(16, 16, 1))


def test_code_in_a_keras_file_is_not_run(tmp_path: Path, lenet5: keras.Model) -> None:
    lenet5.save(tmp_path / "whole.keras")
    with zipfile.ZipFile(tmp_path / "whole.keras") as archive:
        weights = archive.read("model.weights.h5")
    _keras_file(tmp_path / "model.keras", {"config.json": b"not even JSON", "model.weights.h5": weights})
    assert all_equal(started_model(tmp_path, spec("lenet5", "model.keras"), facts(16, 16, 1)), lenet5)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ("elsewhere.weights.h5", "model.weights: 'elsewhere.weights.h5' is not on this host below the data roots"),
        ("../secret.weights.h5", "is not on this host below the data roots"),
        ("model.keras", "model.weights: 'model.keras' is not on this host below the data roots"),
        ("model.pkl", "model.weights: 'model.pkl' is not none, imagenet, job:ID or an .h5, .hdf5 or .keras file"),
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
