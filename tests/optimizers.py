"""A small network with the optimizer of a spec, in every precision."""

import keras

from jobs.model.plan import DatasetSizes
from jobs.model.spec import Spec, spec_from
from trainer.data.interfaces import Facts
from trainer.models import build_model, build_optimizer
from trainer.plan import settle_plan

NAMES = tuple(map(str, range(10)))
DIGITS = Facts("arrays", (8, 8, 1), "uint8", (0.0, 16.0), None, NAMES, DatasetSizes(train=90, validation=10), {})


PRECISIONS = ["float32", "mixed_float16", "mixed_bfloat16"]


def spec_with(**fields: object) -> Spec:
    return spec_from({"dataset": "digits", "model": "mlp", **fields})


def model_and_optimizer(spec: Spec) -> tuple[keras.Model, keras.optimizers.Optimizer]:
    model = build_model(spec, DIGITS)
    return model, build_optimizer(spec, settle_plan(spec, DIGITS.sizes, gpus=1), model)
