"""TFRecord files of examples, written by TensorFlow."""

from pathlib import Path
from typing import Any

import tensorflow as tf


def feature(value: Any) -> Any:
    """A feature of bytes, texts, integers or floats."""
    values = value if isinstance(value, list) else [value]
    if isinstance(values[0], str | bytes):
        encoded = [each.encode() if isinstance(each, str) else each for each in values]
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=encoded))
    if isinstance(values[0], int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    return tf.train.Feature(float_list=tf.train.FloatList(value=values))


def example(**values: Any) -> bytes:
    named = {name.replace("__", "/"): feature(value) for name, value in values.items()}
    content: bytes = tf.train.Example(features=tf.train.Features(feature=named)).SerializeToString()
    return content


def write(path: Path, examples: list[bytes]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for content in examples:
            writer.write(content)
