"""The networks for texts, of Keras's own layers and operations. Listed in `trainer.models.zoo`.

A text is (word,) int32, the numbers of its words in the vocabulary; 0 pads (`trainer.data.texts`). A text of padding
only, as an empty one is, gives finite logits.
"""

from typing import Any

from keras import layers, ops

from trainer.data.texts import PADDING, UNKNOWN
from trainer.models.transformers import dropped, encoder_block

_WIDTH, _HEADS, _BLOCKS = 128, 4, 2


def bag_of_words(x: Any, rate: float, words: int) -> Any:
    """How often each known word occurs: (batch, word of a text) -> (batch, word of the vocabulary).

    With the head it is logistic regression on counts. `words` is the size of the vocabulary. It has no layer to drop.
    """
    first_word = max(PADDING, UNKNOWN) + 1
    return layers.CategoryEncoding(words, output_mode="count", dtype="float32", name="counts")(x)[:, first_word:]


def text_transformer(x: Any, rate: float, words: int) -> Any:
    """A small transformer encoder (Vaswani et al. 2017, arXiv:1706.03762): (batch, word of a text) -> (batch, 128).

    Two blocks with normalization first and learned positions, then the mean over the words. 3.0 million weights with
    20,000 words and texts of 256. `words` is the size of the vocabulary, `rate` that of dropout.
    """
    is_word = ops.not_equal(x, PADDING)  # (batch, word)
    positions = ops.cumsum(ops.ones_like(x), axis=1) - 1
    x = layers.Add(name="embedded")(
        [
            layers.Embedding(words, _WIDTH, name="words")(x),
            layers.Embedding(x.shape[1], _WIDTH, name="positions")(positions),
        ]
    )
    x = dropped(x, rate)
    for number in range(1, _BLOCKS + 1):
        x = encoder_block(x, rate, f"block{number}", heads=_HEADS, mask=ops.expand_dims(is_word, 1))
    x = layers.LayerNormalization(epsilon=1e-6, name="norm")(x)
    weights = ops.expand_dims(ops.cast(is_word, "float32"), 2)  # in half precision a long sum loses digits
    return ops.sum(ops.cast(x, "float32") * weights, axis=1) / ops.maximum(ops.sum(weights, axis=1), 1.0)
