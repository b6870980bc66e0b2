"""A small vision transformer of Keras's own layers, and the block of all transformers here.

Used by `trainer.models.zoo` and `trainer.models.text`.
"""

from typing import Any

from keras import initializers, layers

_WIDTH, _HEADS, _BLOCKS = 192, 3, 12


def vit_tiny(x: Any, rate: float) -> Any:
    """ViT-Ti (Touvron et al. 2020, arXiv:2012.12877): (batch, height, width, channel) -> (batch, 192).

    With the mean over all patches in place of a class token (Beyer et al. 2022, arXiv:2205.01580), as plain Keras has
    no layer for a token. 5,716,840 weights on 224x224x3 with 1000 classes. `rate` is that of dropout.
    """
    x = _embedded(x)
    x = dropped(x, rate)
    for number in range(1, _BLOCKS + 1):
        x = encoder_block(x, rate, f"block{number}", heads=_HEADS)
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    return layers.GlobalAveragePooling1D(name="pool")(x)


def _embedded(x: Any) -> Any:
    """Patches of pixels, projected, with learned positions: (batch, patch, 192). Zeros fill the last patches."""
    height, width, channels = x.shape[1:]
    side = _patch_side(min(height, width))
    rows, columns = -(-height // side), -(-width // side)
    x = layers.ZeroPadding2D(((0, rows * side - height), (0, columns * side - width)), name="padding")(x)
    x = layers.Reshape((rows, side, columns, side, channels), name="rows")(x)
    x = layers.Permute((1, 3, 2, 4, 5), name="columns")(x)
    x = layers.Reshape((rows * columns, side * side * channels), name="patches")(x)
    # The positions are the bias of the projection, which has a row of its own for each patch.
    return layers.EinsumDense(
        "bpi,io->bpo",
        output_shape=(rows * columns, _WIDTH),
        bias_axes="po",
        bias_initializer=initializers.RandomNormal(stddev=0.02),
        name="embedding",
    )(x)


def _patch_side(side: int) -> int:
    """The pixels of a patch's side: 16 from 128 pixels on, fewer on smaller images, so that patches are left."""
    return next((patch for least, patch in ((128, 16), (64, 8), (16, 4)) if side >= least), 2)


def encoder_block(x: Any, rate: float, name: str, *, heads: int, mask: Any = None) -> Any:
    """Attention, then two dense layers; each behind a normalization and beside a shortcut.

    `x` is (batch, place, width). `mask` (batch, 1, place) says which places count; None: all.
    """
    width = x.shape[-1]
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm1")(x)
    y = layers.MultiHeadAttention(heads, width // heads, name=f"{name}_attention")(y, y, attention_mask=mask)
    x = layers.Add(name=f"{name}_add1")([x, dropped(y, rate)])
    y = layers.LayerNormalization(epsilon=1e-6, name=f"{name}_norm2")(x)
    y = layers.Dense(4 * width, activation="gelu", name=f"{name}_dense1")(y)
    y = layers.Dense(width, name=f"{name}_dense2")(dropped(y, rate))
    return layers.Add(name=f"{name}_add2")([x, dropped(y, rate)])


def dropped(x: Any, rate: float) -> Any:
    """The activations with a share of them dropped in training; 0 adds no layer."""
    return layers.Dropout(rate)(x) if rate else x
