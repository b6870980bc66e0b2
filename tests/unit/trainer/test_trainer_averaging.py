"""The messages of a step, as TensorFlow runs them. What they average is tested under horovodrun."""

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from trainer.averaging import Averaged, Averaging, on_this_rank
from trainer.buckets import buckets_of

LAYERS = 3


pytestmark = pytest.mark.usefixtures("connected")


def messages_of(averaging: Averaging) -> dict[str, list[str]]:
    """For each message, those of the gradients of a chain of layers that must be computed before it."""
    weights = [tf.Variable(tf.ones((4, 4))) for _ in range(LAYERS)]

    @tf.function(autograph=False)  # type: ignore[untyped-decorator]
    def step(x: tf.Tensor) -> Averaged:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = tf.tanh(y @ weight)
        gradients = tape.gradient(y, weights)
        named = [tf.identity(gradient, name=f"gradient-{n}") for n, gradient in enumerate(gradients)]
        return averaging.in_messages(named, [tf.reduce_sum(x)])

    operations = step.get_concrete_function(tf.ones((2, 4))).graph.get_operations()
    messages = [operation for operation in operations if operation.type == "HorovodGroupedAllreduce"]
    return {one.name: sorted(name for name in before(one) if name.startswith("gradient-")) for one in messages}


def before(operation: tf.Operation) -> set[str]:
    """All operations that one of a graph waits for."""
    found: dict[str, tf.Operation] = {}
    waiting = [operation]
    while waiting:
        one = waiting.pop()
        for other in (*(tensor.op for tensor in one.inputs), *one.control_inputs):
            if other.name not in found:
                found[other.name] = other
                waiting.append(other)
    return set(found)


def test_a_message_waits_for_the_gradients_of_its_bucket_alone() -> None:
    assert messages_of(Averaging()) == {"step.0": ["gradient-0", "gradient-1", "gradient-2"]}
    assert messages_of(Averaging(bucket_mb=64e-6)) == {
        "step.0": ["gradient-2"], "step.1": ["gradient-1"], "step.2": ["gradient-0"],
    }  # fmt: skip
    compressed = Averaging(bucket_mb=64e-6, compression="fp16")  # twice as many fit, and the figures travel alone
    assert messages_of(compressed) == {
        "step.0": [], "step.1": ["gradient-1", "gradient-2"], "step.2": ["gradient-0"],
    }  # fmt: skip


def test_compressed_gradients_lose_digits_and_come_back_as_they_were_sent() -> None:
    third, figure = tf.constant([1 / 3]), tf.constant([1 / 3])
    # As in a step: outside a function of TensorFlow the clocks would be rounded to float32.
    in_messages = tf.function(Averaging(compression="fp16").in_messages, autograph=False)
    averaged = in_messages([third], [figure])
    assert averaged.gradients[0].dtype == tf.float32
    assert averaged.gradients[0].numpy().tolist() == np.float32(np.float16(1 / 3)).reshape(1).tolist()
    assert averaged.figures[0].numpy().tolist() == figure.numpy().tolist()
    assert averaged.allreduce_s.numpy() > 0
    averaged = in_messages([tf.constant([1e6, -1e6, 1.0])], [tf.zeros(1)])
    assert averaged.gradients[0].numpy().tolist() == [np.inf, -np.inf, 1.0]  # and not wrong


def test_a_rank_alone_sends_nothing() -> None:
    gradients, figures = [tf.constant([1 / 3])], [tf.constant([2.0])]
    averaged = Averaging(compression="fp16")(gradients, figures)
    assert averaged.gradients is gradients
    assert averaged.figures is figures
    assert messages_of(Averaging(exchange=on_this_rank)) == {}


@pytest.mark.parametrize(
    ("sizes", "bucket", "buckets"),
    [
        ([1, 2, 3], None, [[2, 1, 0]]),
        ([1, 2, 3], 5, [[2, 1], [0]]),  # full to the last byte
        ([4, 4, 4], 4.5, [[2], [1], [0]]),
        ([1, 100, 1, 1], 10, [[3, 2], [1], [0]]),  # a large one travels alone
        ([], 10, []),
    ],
)
def test_the_last_gradients_travel_first(sizes: list[int], bucket: float | None, buckets: list[list[int]]) -> None:
    assert buckets_of(sizes, bucket) == buckets


@given(st.lists(st.integers(0, 50)), st.none() | st.floats(1, 100))
def test_each_gradient_travels_once_and_no_bucket_is_too_large(sizes: list[int], bucket: float | None) -> None:
    buckets = buckets_of(sizes, bucket)
    assert [position for positions in buckets for position in positions] == list(reversed(range(len(sizes))))
    held = [sum(sizes[position] for position in positions) for positions in buckets]
    assert all(
        len(positions) == 1 or bucket is None or size <= bucket for positions, size in zip(buckets, held, strict=True)
    )
    joined = [size + sizes[positions[0]] for size, positions in zip(held[:-1], buckets[1:], strict=True)]
    assert all(bucket is not None and size > bucket for size in joined)  # none is begun without need
