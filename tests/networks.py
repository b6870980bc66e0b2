"""Facts, specs, images and variable values for the tests of networks."""

from typing import Any

import numpy as np

from jobs.model.plan import DatasetSizes
from jobs.model.spec import Spec, spec_from
from trainer.data.interfaces import Facts

SMALL = ["lenet5", "mlp", "alexnet", "convnet7", "chipnet"]
DEEP = ["resnet20", "vit_tiny"]


def facts(*shape: int, classes: int = 10, **fields: Any) -> Facts:
    defaults: dict[str, Any] = {
        "format": "arrays",
        "shape": shape,
        "dtype": "uint8",
        "value_range": (0.0, 255.0),
        "normalization": None,
        "classes": tuple(map(str, range(classes))),
        "sizes": DatasetSizes(train=90, validation=10),
        "damaged": {},
    }
    return Facts(**(defaults | fields))


def spec(model: str | dict[str, Any], **fields: Any) -> Spec:
    return spec_from({"dataset": "digits", "model": model, **fields})


def images(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).integers(0, 256, shape, np.uint8)


def values(variables: list[Any]) -> list[np.ndarray]:
    return [variable.numpy().copy() for variable in variables]


def equal(some: list[np.ndarray], others: list[np.ndarray]) -> list[bool]:
    return [np.array_equal(a, b) for a, b in zip(some, others, strict=True)]
