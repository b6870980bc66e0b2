"""The networks of `keras.applications` as bases below our own head. Listed in `trainer.models.zoo`.

Each takes three channels in -1..1. An image of one channel is repeated three times. So the weights of a base always
have the same shapes, and the weights of one job fit another.
"""

from dataclasses import dataclass
from typing import Any

import keras
from keras import layers

BASE = "base"
_URL = "https://storage.googleapis.com/tensorflow/keras-applications"
# The input that ResNet-50 was trained with (as in Caffe): blue, green, red in 0..255, less their means over ImageNet.
_CAFFE_MEANS = (103.939, 116.779, 123.68)
# The input of EfficientNetV2-B0: red, green, blue in 0..1, less their means over ImageNet, by their deviations.
_MEANS, _DEVIATIONS = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@dataclass(frozen=True)
class WeightsFile:
    """A file of ImageNet weights as Keras publishes it, for a base without its head."""

    name: str
    name_with_top: str  # of the file for the whole network, which serves as well
    url: str
    md5: str | None  # where Keras knows it


def xception(x: Any, *, training: bool | None) -> Any:
    """Xception (Chollet 2016, arXiv:1610.02357): 20,861,480 weights, (batch, 2048) out."""
    x = _three_channels(x)
    return _base(keras.applications.Xception, x)(x, training=training)


def resnet50(x: Any, *, training: bool | None) -> Any:
    """ResNet-50 (He et al. 2015, arXiv:1512.03385): 23,587,712 weights, (batch, 2048) out."""
    x = keras.ops.flip(_three_channels(x), axis=-1)
    x = layers.Rescaling(127.5, offset=[127.5 - mean for mean in _CAFFE_MEANS], dtype="float32")(x)
    return _base(keras.applications.ResNet50, x)(x, training=training)


def mobilenet_v2(x: Any, *, training: bool | None) -> Any:
    """MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381): 2,257,984 weights, (batch, 1280) out."""
    x = _three_channels(x)
    return _base(keras.applications.MobileNetV2, x)(x, training=training)


def efficientnet_v2_b0(x: Any, *, training: bool | None) -> Any:
    """EfficientNetV2-B0 (Tan and Le 2021, arXiv:2104.00298): 5,919,312 weights, (batch, 1280) out.

    A block that is trained is left out at random, in a fifth of the steps at most (stochastic depth).
    """
    scale = [0.5 / deviation for deviation in _DEVIATIONS]
    offset = [(0.5 - mean) / deviation for mean, deviation in zip(_MEANS, _DEVIATIONS, strict=True)]
    x = layers.Rescaling(scale, offset, dtype="float32")(_three_channels(x))
    return _base(keras.applications.EfficientNetV2B0, x, include_preprocessing=False)(x, training=training)


def xception_weights(size: tuple[int, int]) -> WeightsFile:
    """The ImageNet weights of Xception, for every size."""
    stem = "xception_weights_tf_dim_ordering_tf_kernels"
    name = f"{stem}_notop.h5"
    return WeightsFile(name, f"{stem}.h5", f"{_URL}/xception/{name}", "b0042744bf5b25fce3cb969f33bebb97")


def resnet50_weights(size: tuple[int, int]) -> WeightsFile:
    """The ImageNet weights of ResNet-50, for every size."""
    stem = "resnet50_weights_tf_dim_ordering_tf_kernels"
    name = f"{stem}_notop.h5"
    return WeightsFile(name, f"{stem}.h5", f"{_URL}/resnet/{name}", "4d473c1dd8becc155b73f8504c6f6626")


def mobilenet_v2_weights(size: tuple[int, int]) -> WeightsFile:
    """The ImageNet weights of MobileNetV2: a file for each of five sizes, that of 224x224 for every other."""
    side = size[0] if size[0] == size[1] and size[0] in (96, 128, 160, 192) else 224
    stem = f"mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_{side}"
    name = f"{stem}_no_top.h5"
    return WeightsFile(name, f"{stem}.h5", f"{_URL}/mobilenet_v2/{name}", None)


def efficientnet_v2_b0_weights(size: tuple[int, int]) -> WeightsFile:
    """The ImageNet weights of EfficientNetV2-B0, for every size."""
    name = "efficientnetv2-b0_notop.h5"
    url = f"{_URL}/efficientnet_v2/{name}"
    return WeightsFile(name, "efficientnetv2-b0.h5", url, "893217f2bb855e2983157299931e43ff")


def _base(application: Any, x: Any, **options: Any) -> keras.Model:
    shape = tuple(x.shape[1:])
    network = application(include_top=False, weights=None, input_shape=shape, pooling="avg", **options)
    # Renamed only here, because Keras looks up the blocks of an EfficientNet by its name.
    return keras.Model(network.input, network.output, name=BASE)


def _three_channels(x: Any) -> Any:
    return layers.Concatenate(dtype="float32")([x, x, x]) if x.shape[-1] == 1 else x
