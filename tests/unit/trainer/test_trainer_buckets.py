"""The buckets in which gradients travel."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trainer.buckets import buckets_of


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
