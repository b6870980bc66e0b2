"""The networks that are trained from scratch, layer by layer up to the head. Listed in `trainer.models.zoo`.

None of them normalizes over a batch, so n ranks compute the same as one rank on the same global batch. Convolutions
and pools keep at least one pixel, so images of every size pass.
"""

from collections.abc import Iterator

from keras import layers

Layers = Iterator[layers.Layer]

_ELU = {"activation": "elu", "kernel_initializer": "he_normal"}
_RELU = {"activation": "relu", "kernel_initializer": "he_normal"}


def dropout(rate: float) -> Layers:
    """A dropout layer, or none where the rate is 0."""
    if rate:
        yield layers.Dropout(rate)


def lenet5(size: tuple[int, ...], rate: float) -> Layers:
    """LeNet-5 (LeCun et al. 1998) with ELU and max pooling: 61,706 weights on 28x28x1.

    ELU (Clevert et al. 2015, arXiv:1511.07289), because on few samples and steps it learns faster than tanh, and
    fewer runs stop early below their best than with ReLU. An image smaller than 20x20 keeps its size until after
    the second convolution, or little would be left of it.
    """
    small = min(size) < 20
    yield layers.Conv2D(6, 5, padding="same", **_ELU)
    if not small:
        yield layers.MaxPooling2D()
    yield layers.Conv2D(16, 5, padding="same" if small else "valid", **_ELU)
    yield layers.MaxPooling2D(padding="same")
    yield layers.Flatten()
    for units in (120, 84):
        yield layers.Dense(units, **_ELU)
        yield from dropout(rate)


def mlp(size: tuple[int, ...], rate: float) -> Layers:
    """Two hidden layers of 128."""
    yield layers.Flatten()
    for _ in range(2):
        yield layers.Dense(128, **_ELU)
        yield from dropout(rate)


def alexnet(size: tuple[int, ...], rate: float) -> Layers:
    """AlexNet (Krizhevsky et al. 2012) in one column, without local response normalization.

    62,378,344 weights on 224x224x3 with 1000 classes. An image below 128 pixels gets a smaller stem, 5x5 with a stride
    of 2, or of 1 below 64, so that pixels are left for the dense layers. These always have 4,096 units each. So this
    network has much to send and little to compute.
    """
    side = min(size)
    full = side >= 128
    stride = 4 if full else 2 if side >= 64 else 1
    yield layers.Conv2D(96, 11 if full else 5, strides=stride, padding="same", **_RELU)
    yield _overlapping_pool(full)
    yield layers.Conv2D(256, 5, padding="same", **_RELU)
    yield _overlapping_pool(full)
    for filters in (384, 384, 256):
        yield layers.Conv2D(filters, 3, padding="same", **_RELU)
    yield _overlapping_pool(full)
    yield layers.Flatten()
    for _ in range(2):
        yield layers.Dense(4096, **_RELU)
        yield from dropout(rate)


def _overlapping_pool(full: bool) -> layers.Layer:
    return layers.MaxPooling2D(3, strides=2, padding="valid" if full else "same")


def convnet7(size: tuple[int, ...], rate: float) -> Layers:
    """Seven layers with weights: five 3x3 convolutions, a dense one, and the head.

    A convolution is followed by a pool as long as more than 7 pixels are left on a side, so that the dense layer has
    the same size from 28x28 up to 224x224. ELU, because with ReLU rounding decides which units are off: after
    100 steps the losses of 1 and 2 ranks were 8 % apart, and with ELU 0.004 %.
    """
    side = max(size)
    for filters in (32, 64, 96, 96, 64):
        yield layers.Conv2D(filters, 3, padding="same", **_ELU)
        if side > 7:
            yield layers.MaxPooling2D(padding="same")
            side = (side + 1) // 2
    yield layers.Flatten()
    yield layers.Dense(128, **_ELU)
    yield from dropout(rate)


def chipnet(size: tuple[int, ...], rate: float) -> Layers:
    """A small network for large images with few classes, such as photographs of chips, good or broken: 500x500.

    Every convolution halves the image and doubles the filters, so all cost about the same. The head gets the mean over
    the last pixels, so it has no more weights on large images than on small ones.
    """
    for number, filters in enumerate((8, 16, 32, 64)):
        yield layers.Conv2D(filters, 3, strides=1 if number else 2, padding="same", **_ELU)
        yield layers.MaxPooling2D(padding="same")
    yield layers.GlobalAveragePooling2D()
    yield layers.Dense(32, **_ELU)
    yield from dropout(rate)
