"""Divides the gradients of a step into buckets: the messages they travel in. Pure. Used by `trainer.averaging`."""

from collections.abc import Sequence


def buckets_of(sizes_bytes: Sequence[int], bucket_bytes: float | None) -> list[list[int]]:
    """The positions of the gradients in each bucket, in the sequence in which the backward pass computes them.

    `sizes_bytes` are in the sequence of the variables, first layer first. The backward pass begins at the last layer,
    and so does the first bucket. A gradient that is larger than a bucket has one of its own. None: one bucket for all.
    The result depends on the arguments alone, so it is the same on every rank.
    """
    buckets: list[list[int]] = []
    held_bytes = 0
    for position in reversed(range(len(sizes_bytes))):
        size_bytes = sizes_bytes[position]
        if not buckets or (bucket_bytes is not None and held_bytes + size_bytes > bucket_bytes):
            buckets.append([])
            held_bytes = 0
        buckets[-1].append(position)
        held_bytes += size_bytes
    return buckets
