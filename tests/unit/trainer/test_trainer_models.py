"""The networks, on any image."""

import keras
import numpy as np
import pytest

from jobs.spec import Spec, spec_from
from trainer.data import Dataset, Part
from trainer.exits import BadData
from trainer.models import build_model, build_optimizer
from trainer.plan import settle_plan


def dataset(shape: tuple[int, int, int]) -> Dataset:
    part = Part(np.zeros((100, *shape), np.uint8), np.arange(100, dtype=np.int32) % 10)
    return Dataset(train=part, validation=part, test=part, classes=10, max_pixel=255)


def spec(**fields: object) -> Spec:
    return spec_from({"dataset": "digits", **fields})


@pytest.mark.parametrize("name", ["lenet5", "mlp"])
@pytest.mark.parametrize("shape", [(8, 8, 1), (28, 28, 1), (33, 20, 3), (1, 1, 1)])
def test_every_network_takes_every_image(name: str, shape: tuple[int, int, int]) -> None:
    model = build_model(spec(model={"name": name, "dropout": 0.5}), dataset(shape))
    logits = model(np.zeros((3, *shape), np.uint8))
    assert logits.shape == (3, 10)
    assert logits.dtype == "float32"


def test_lenet5_has_the_size_it_is_known_for() -> None:
    assert build_model(spec(model="lenet5"), dataset((28, 28, 1))).count_params() == 61_706


def test_half_precision_computes_in_halves_and_keeps_whole_weights() -> None:
    model = build_model(spec(precision="mixed_bfloat16"), dataset((8, 8, 1)))
    keras.config.set_dtype_policy("float32")
    assert {str(weight.dtype) for weight in model.weights} == {"float32"}
    assert model.layers[2].compute_dtype == "bfloat16"
    assert model.output.dtype == "float32"


@pytest.mark.parametrize("optimizer", ["adam", "nadam", "sgd"])
def test_an_optimizer_has_all_its_variables_before_the_first_step(optimizer: str) -> None:
    asked, data = spec(optimizer=optimizer), dataset((8, 8, 1))
    model = build_model(asked, data)
    built = build_optimizer(asked, settle_plan(asked, data.sizes, ranks=1), model)
    assert len(built.variables) > len(model.trainable_variables)
    assert float(built.learning_rate) == pytest.approx(asked.learning_rate)


def test_an_unknown_model_is_bad_data() -> None:
    with pytest.raises(BadData, match="there is no model 'resnet50'; there are: lenet5, mlp"):
        build_model(spec(model="resnet50"), dataset((8, 8, 1)))
