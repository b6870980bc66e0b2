"""Initial weights: fitting weights are taken bit for bit, others are refused; nothing else is read or run."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec
import h5py
import keras
import numpy as np
import pytest

from tests.archives import zip_of
from tests.networks import facts
from tests.weights import all_equal, launch, spec, started_model, values
from trainer.errors import BadData
from trainer.models import build_model, load_initial_weights, weight_files

Change = Callable[[h5py.File], object]
FIRST = "layers/conv2d/vars/0"  # the first array of the network
SHAPE = (5, 5, 1, 6)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> tuple[keras.Model, bytes]:
    """A network, and the file of its weights."""
    model = build_model(spec("lenet5", seed=7, dropout=0.3), facts(16, 16, 1))
    path = tmp_path_factory.mktemp("saved") / "model.weights.h5"
    model.save_weights(path)
    return model, path.read_bytes()


@pytest.fixture
def lenet5(saved: tuple[keras.Model, bytes], tmp_path: Path) -> keras.Model:
    """A network whose weights lie in model.weights.h5 below the data root."""
    (tmp_path / "model.weights.h5").write_bytes(saved[1])
    return saved[0]


@pytest.fixture(scope="module")
def other() -> keras.Model:
    """A network that gets no weights: all files for it are refused."""
    return build_model(spec("lenet5"), facts(16, 16, 1))


def assert_refused(model: keras.Model, root: Path, weights: str, sentence: str, **fields: Any) -> None:
    asked = spec("lenet5", weights)
    with pytest.raises(BadData, match=sentence):
        load_initial_weights(model, asked, launch(root, asked, **fields))


def contain_itself(file: h5py.File) -> None:
    file["layers/conv2d/again"] = file["/"]


def nest_deeper_than_calls(file: h5py.File) -> None:
    group = file["layers/conv2d"]
    for _ in range(1200):
        group = group.create_group("layers")


@pytest.mark.parametrize(
    ("change", "precision"),
    [(list, "float32"), (list, "mixed_float16"), (contain_itself, "float32"), (nest_deeper_than_calls, "float32")],
)
def test_a_file_below_the_data_roots_gives_every_weight(
    tmp_path: Path, lenet5: keras.Model, change: Change, precision: str
) -> None:
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        change(file)
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


def test_optimizer_state_in_the_file_is_ignored(tmp_path: Path) -> None:
    model = build_model(spec("lenet5", seed=7), facts(16, 16, 1))
    model.compile("adam", "sparse_categorical_crossentropy")
    model.optimizer.build(model.trainable_variables)
    model.save_weights(tmp_path / "model.weights.h5")
    assert "optimizer" in h5py.File(tmp_path / "model.weights.h5")
    assert all_equal(started_model(tmp_path, spec("lenet5", "model.weights.h5"), facts(16, 16, 1)), model)


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
    ],
)
@pytest.mark.usefixtures("lenet5")
def test_weights_of_another_network_are_refused(
    tmp_path: Path, name: str, shape: tuple[int, int, int], sentence: str
) -> None:
    with pytest.raises(BadData, match=sentence):
        started_model(tmp_path, spec(name, "model.weights.h5"), facts(*shape))


PICKLE = b"\x80\x04cos\nsystem\n(S'true'\ntR."


def test_damaged_file_is_bad_data(tmp_path: Path, saved: tuple[keras.Model, bytes], other: keras.Model) -> None:
    path, whole = tmp_path / "model.weights.h5", saved[1]
    for content in (whole[:5000], whole[:600] + b"\xff" * 3400 + whole[4000:], PICKLE, None):
        path.unlink(missing_ok=True)
        if content is None:
            path.mkdir()
        else:
            path.write_bytes(content)
        assert_refused(other, tmp_path, path.name, "model.weights: model.weights.h5 cannot be read: ")


def put(file: h5py.File, **fields: Any) -> None:
    """Write another array in the place of the first one."""
    del file[FIRST]
    file.create_dataset(FIRST, **fields)


def link(file: h5py.File, target: h5py.ExternalLink | h5py.SoftLink) -> None:
    del file["layers/conv2d"]
    file["layers/conv2d"] = target


def _virtual_dataset(file: h5py.File, elsewhere: Path) -> None:
    layout = h5py.VirtualLayout(shape=SHAPE, dtype="f4")
    layout[...] = h5py.VirtualSource(str(elsewhere), FIRST, shape=SHAPE)
    del file[FIRST]
    file.create_virtual_dataset(FIRST, layout)


def _link_beside_the_lists_of_keras_2(file: h5py.File, elsewhere: Path) -> None:
    file.attrs["layer_names"] = [b"stolen"]
    file["stolen"] = h5py.ExternalLink(str(elsewhere), "layers/conv2d")


@pytest.mark.parametrize(
    "make",
    [
        lambda file, elsewhere: link(file, h5py.ExternalLink(str(elsewhere), "layers/conv2d")),
        lambda file, _: link(file, h5py.SoftLink("/layers/conv2d_1")),
        lambda file, elsewhere: put(file, shape=SHAPE, dtype="f4", external=[(str(elsewhere), 0, 4 * 150)]),
        _virtual_dataset,
        _link_beside_the_lists_of_keras_2,
    ],
    ids=["external link", "soft link", "external storage", "virtual dataset", "link beside the lists of Keras 2"],
)
@pytest.mark.usefixtures("lenet5")
def test_a_file_that_points_elsewhere_is_refused(tmp_path: Path, other: keras.Model, make: Any) -> None:
    root = tmp_path / "root"
    root.mkdir()
    secret = (tmp_path / "model.weights.h5").rename(tmp_path / "secret.weights.h5")
    (root / "model.weights.h5").write_bytes(secret.read_bytes())
    with h5py.File(root / "model.weights.h5", "r+") as file:
        make(file, secret)
    assert_refused(other, root, "model.weights.h5", r"model\.weights\.h5 links to data elsewhere")


def _lying_lists(file: h5py.File) -> None:
    file.attrs["layer_names"] = [b"layers"]
    file["layers"].attrs["weight_names"] = [f"/{FIRST}".encode()]


def _a_name_with_line_breaks(file: h5py.File) -> None:
    file["layers/conv2d/vars"].attrs["name"] = "a\nb" * 1000
    file["layers/conv2d_9/vars/0"] = np.ones(3, np.float32)
    file["layers/conv2d_9/vars"].attrs["name"] = "conv\nnext" * 1000


def listing(names: object) -> Change:
    return lambda file: file.attrs.update(layer_names=names)


UNPACKS_TO_400_MB = {"shape": SHAPE, "dtype": "f4", "chunks": (5, 5, 4000, 1000), "maxshape": (5, 5, None, None)}
PETABYTE = {"shape": (1 << 24, 1 << 24), "dtype": "f4", "chunks": (1024, 1024)}  # nothing of it is stored


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"data": np.full(SHAPE, np.nan, "f4")}, r"has values in layer conv2d\S* that are not finite$"),
        ({"data": np.full(SHAPE, 1e200)}, r"has values in layer conv2d\S* that are not finite$"),  # in float32
        ({"data": "weights"}, r"layer conv2d\S*, \(5, 5, 1, 6\), is not in it"),
        ({"data": np.ones(SHAPE, np.int64)}, r"has int64 in layer conv2d\S*, which holds float32$"),
        (UNPACKS_TO_400_MB, r"packs layer conv2d\S* in chunks that are larger than the layer$"),
        (PETABYTE, r"layer conv2d\S*, \(5, 5, 1, 6\), has the shape \(16777216, 16777216\) there$"),
        (_lying_lists, r"cannot be read: it lists 0 of the layer layers, and has no such numbers$"),
        (listing([b"layers"] * 1000), "cannot be read: it lists a layer twice$"),
        (listing(["gone\n"]), r"cannot be read: it lists a layer gone\?, and has no such group$"),
        (listing(7), "cannot be read: its attribute layer_names is no list$"),
        (_a_name_with_line_breaks, r"does not fit lenet5: the network has no layer conv\?next.{1,100}, \(3,\)$"),
    ],
)
@pytest.mark.usefixtures("lenet5")
def test_a_hostile_file_is_refused_in_a_sentence(
    tmp_path: Path, other: keras.Model, change: Change | dict[str, Any], sentence: str
) -> None:
    """A change is of the file, or says what stands in the place of its first array."""
    with h5py.File(tmp_path / "model.weights.h5", "r+") as file:
        if isinstance(change, dict):
            put(file, **change)
        else:
            change(file)
    assert_refused(other, tmp_path, "model.weights.h5", sentence)


LARGE = zip_of({"model.weights.h5": bytes(3_000_000)})


@pytest.mark.parametrize(
    ("archive", "sentence"),
    [
        (zip_of({"config.json": b"{}"}), "it has no member model.weights.h5"),
        (zip_of({"../model.weights.h5": b"a"}), "it has no member model.weights.h5"),
        (zip_of({"model.weights.h5": PICKLE}), "file signature not found"),
        (LARGE, r"model.weights.h5 has 3\.0 MB; up to 1\.0 MB are read"),
        (LARGE.replace((3_000_000).to_bytes(4, "little"), (9).to_bytes(4, "little")), ""),  # lies about its size
        (zip_of({f"assets/{number}": b"" for number in range(40)}), "it has more than 30 members"),
    ],
)
def test_a_hostile_zip_file_is_refused_in_a_sentence(
    tmp_path: Path, other: keras.Model, archive: bytes, sentence: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weight_files, "_MOST_BYTES", 1_000_000)
    monkeypatch.setattr(weight_files, "_MOST_MEMBERS", 30)
    (tmp_path / "model.keras").write_bytes(archive)
    assert_refused(other, tmp_path, "model.keras", rf"^model\.weights: model\.keras cannot be read: .*{sentence}")


def test_code_in_a_keras_file_is_not_run_and_a_file_at_a_url_is_fetched(tmp_path: Path, lenet5: keras.Model) -> None:
    weights = (tmp_path / "model.weights.h5").read_bytes()
    (tmp_path / "model.keras").write_bytes(zip_of({"config.json": b"not even JSON", "model.weights.h5": weights}))
    filesystem = fsspec.filesystem("memory")
    filesystem.put_file(str(tmp_path / "model.keras"), "/models/model.keras")
    asked = spec("lenet5", "memory://models/model.keras")
    model = build_model(asked, facts(16, 16, 1))
    told = launch(tmp_path, asked).model_copy(update={"data_roots": ["memory://models"]})
    load_initial_weights(model, asked, told)
    filesystem.rm("/models", recursive=True)
    assert all_equal(model, lenet5)


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ("elsewhere.weights.h5", "model.weights: 'elsewhere.weights.h5' is not on this host below the data roots"),
        ("../secret.weights.h5", "is not on this host below the data roots"),
        ("model.pkl", "model.weights: 'model.pkl' is not none, imagenet, job:ID or an .h5, .hdf5 or .keras file"),
        ("imagenet", "no ImageNet weights of lenet5; there are of: resnet50, xception, mobilenet_v2"),
        ("job:1aagd4bvydhb", r"job 1aagd4bvydhb left no weights on this host \(.*gone.weights.h5\)"),
    ],
)
def test_missing_or_unsupported_weights_are_bad_data(
    tmp_path: Path, other: keras.Model, weights: str, sentence: str
) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (tmp_path / "secret.weights.h5").touch()
    assert_refused(other, root, weights, sentence, job_weights=root / "gone.weights.h5")


@pytest.mark.timeout(60)
@pytest.mark.parametrize("weights", ["model.weights.h5", "job:1aagd4bvydhb"])
def test_a_named_pipe_is_not_waited_for(tmp_path: Path, other: keras.Model, weights: str) -> None:
    os.mkfifo(tmp_path / "model.weights.h5")
    sentence = r"model\.weights\.h5 cannot be read: it is a named pipe|left no weights on this host"
    assert_refused(other, tmp_path, weights, sentence, job_weights=tmp_path / "model.weights.h5")
