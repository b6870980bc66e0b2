"""The residual networks for small images, 20 to 56 layers deep (He et al. 2015, arXiv:1512.03385, section 4.2).

Listed in `trainer.models.zoo`.
"""

from typing import Any

import keras
from keras import layers

_STAGES = (16, 32, 64)  # filters


def residual(x: Any, depth: int) -> Any:
    """A network of `depth` = 6n + 2 layers with weights, head included: (batch, height, width, channel) -> (batch, 64).

    Three stages of n blocks. 0.27 million weights with 20 layers, 0.85 million with 56.
    """
    x = _normalized(_convolution(x, _STAGES[0], "stem"), "stem")
    x = layers.ReLU(name="stem_relu")(x)
    for stage, filters in enumerate(_STAGES, start=1):
        for block in range(1, (depth - 2) // 6 + 1):
            strides = 2 if block == 1 and stage > 1 else 1
            x = _block(x, filters, strides, f"stage{stage}_block{block}")
    return layers.GlobalAveragePooling2D(name="pool")(x)


def _block(x: Any, filters: int, strides: int, name: str) -> Any:
    y = _normalized(_convolution(x, filters, f"{name}_1", strides), f"{name}_1")
    y = layers.ReLU(name=f"{name}_1_relu")(y)
    y = _normalized(_convolution(y, filters, f"{name}_2"), f"{name}_2")
    x = layers.Add(name=f"{name}_add")([_shortcut(x, filters, strides, name), y])
    return layers.ReLU(name=f"{name}_relu")(x)


def _shortcut(x: Any, filters: int, strides: int, name: str) -> Any:
    """Option A of the article: every other pixel, with channels of zeros beside those that are there. No weights."""
    if strides == 1:
        return x
    x = layers.AveragePooling2D(1, strides, name=f"{name}_shortcut")(x)
    before = (filters - x.shape[-1]) // 2
    return keras.ops.pad(x, [(0, 0), (0, 0), (0, 0), (before, filters - x.shape[-1] - before)])


def _convolution(x: Any, filters: int, name: str, strides: int = 1) -> Any:
    return layers.Conv2D(
        filters, 3, strides, padding="same", use_bias=False, kernel_initializer="he_normal", name=f"{name}_conv"
    )(x)


def _normalized(x: Any, name: str) -> Any:
    # As the article's own programs do. Keras's momentum of 0.99 is for runs of many more steps than those on CIFAR.
    return layers.BatchNormalization(momentum=0.9, epsilon=1e-5, name=f"{name}_bn")(x)
