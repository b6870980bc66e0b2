"""A whole recipe against plain Keras: the same weights after the same samples."""

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from jobs.model.plan import DatasetSizes
from jobs.model.spec import spec_from
from trainer.averaging import Averaging
from trainer.callbacks import LearningRate
from trainer.data.interfaces import Facts
from trainer.losses import training_loss, weights_of_classes
from trainer.models import build_optimizer
from trainer.plan import settle_plan
from trainer.state import Plateau
from trainer.steps import accumulated, make_gradients, make_train_step

ROOT = Path(__file__).parents[3]
SAMPLES, CLASSES = 48, ("cat", "dog", "emu")
FEATURES = np.random.default_rng(4).standard_normal((SAMPLES, 4)).astype(np.float32)
LABELS = np.arange(SAMPLES, dtype=np.int32) ** 2 % 3
RECIPE: dict[str, Any] = {
    "dataset": "made-up", "batch_size": 8, "accumulate": 2, "epochs": 3, "learning_rate": 0.1, "schedule": "cosine",
    "clip_norm": 0.5, "label_smoothing": 0.1, "class_weights": {"dog": 2.5},
}  # fmt: skip


pytestmark = pytest.mark.usefixtures("connected")


def network() -> keras.Model:
    keras.utils.set_random_seed(1)
    inputs = keras.Input((4,))
    return keras.Model(inputs, keras.layers.Dense(3)(keras.layers.Dense(8, activation="tanh")(inputs)))


def plain(name: str) -> keras.optimizers.Optimizer:
    rate = keras.optimizers.schedules.CosineDecay(0.1, decay_steps=9)
    if name == "sgd":
        return keras.optimizers.SGD(rate, momentum=0.9, nesterov=True, global_clipnorm=0.5)
    adamw = keras.optimizers.AdamW(rate, weight_decay=0.01, global_clipnorm=0.5)
    adamw.exclude_from_weight_decay(var_names=["bias"])
    return adamw


@pytest.mark.parametrize(
    "fields",
    [
        {"optimizer": {"name": "sgd", "nesterov": True}},
        {"optimizer": {"name": "adamw"}},
    ],
)
def test_a_recipe_gives_the_weights_of_plain_keras(fields: dict[str, Any]) -> None:
    spec = spec_from({**RECIPE, **fields})
    sizes = DatasetSizes(train=SAMPLES, validation=8)
    facts = Facts("arrays", (4,), "float32", None, None, CLASSES, sizes, {})
    plan, model = settle_plan(spec, sizes, gpus=1), network()
    own = build_optimizer(spec, plan, model)
    loss_of = training_loss(
        label_smoothing=spec.label_smoothing, class_weights=weights_of_classes(spec.class_weights, facts)
    )
    gradients_of = accumulated(make_gradients(model, own, loss_of=loss_of), model, batches=plan.accumulate)
    train_step = make_train_step(gradients_of, model, own, [], average=Averaging())
    learning_rate = LearningRate(spec, plan, Plateau(), own)
    for update in range(9):
        at = update % 3 * 16
        learning_rate.on_step_begin(update)
        train_step(FEATURES[at : at + 16], LABELS[at : at + 16], np.zeros((), np.float32))

    expected = network()
    loss = keras.losses.CategoricalCrossentropy(from_logits=True, label_smoothing=0.1)
    expected.compile(plain(spec.optimizer.name), loss, jit_compile=False)
    weights = {0: 1.0, 1: 2.5, 2: 1.0}
    expected.fit(FEATURES, np.eye(3)[LABELS], batch_size=16, epochs=3, shuffle=False, class_weight=weights, verbose=0)
    for weight, value in zip(model.weights, expected.weights, strict=True):
        np.testing.assert_allclose(weight.numpy(), value.numpy(), atol=1e-5)
