"""What the names of layers tell: which are automatic, what they were called before, whose they are. Pure.

Called by `layer_matching`.
"""

import re
from collections.abc import Iterable

_RESNET = re.compile(r"(res|bn)([2-5])([a-f])_branch(1|2a|2b|2c)")
_BRANCHES = {"1": 0, "2a": 1, "2b": 2, "2c": 3}
_RESNET_STEM = {"conv1": "conv1_conv", "bn_conv1": "conv1_bn"}

# A layer by which a network of `keras.applications` is known; the first that is there decides.
_LANDMARKS = {
    "conv2_block1_preact_bn": "a ResNet V2",
    "conv4_block7_1_conv": "ResNet-101 or ResNet-152",
    "conv2_block1_3_conv": "a ResNet",
    "pool2_conv": "a DenseNet",
    "block14_sepconv2": "Xception",
    "block_16_project": "MobileNetV2",
    "conv_pw_13": "MobileNet",
    "block5_conv4": "VGG19",
    "block5_conv3": "VGG16",
    "block1a_dwconv": "an EfficientNet",
    "block1a_project_conv": "an EfficientNet V2",
}


def is_automatic(name: str, kinds: Iterable[str]) -> bool:
    """Whether Keras made a name out of the layer's class, such as `conv2d_7`. Such a name says nothing of its place."""
    own = re.sub(r"_\d+$", "", name.partition("/")[0])
    return any(own == kind.partition("/")[0] for kind in kinds)


def new_name(name: str) -> str | None:
    """What Keras calls a layer now that it called otherwise before 2019: ResNet-50's `res2a_branch2b`. Else None."""
    if match := _RESNET.fullmatch(name):
        part, stage, block, branch = match.groups()
        return f"conv{stage}_block{'abcdef'.index(block) + 1}_{_BRANCHES[branch]}_{'conv' if part == 'res' else 'bn'}"
    return _RESNET_STEM.get(name)


def network_of(names: Iterable[str]) -> str | None:
    """The network of `keras.applications` that has layers of these names, in words; None if it is not known."""
    known = {new_name(last) or last for last in (name.rpartition("/")[2] for name in names)}
    return next((words for layer, words in _LANDMARKS.items() if layer in known), None)
