"""All samples of an opened dataset, as it gives them to be trained or evaluated, for the tests of data."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from trainer.data.interfaces import Part


def read(*parts: Part | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """The features and the labels of all samples of some parts, one part after the other."""
    batches = [batch for part in parts if part is not None for batch in part.rows(0, len(part))]
    features, labels = (np.concatenate(values) for values in zip(*batches, strict=True))
    return features, labels


def evaluated(part: Part, *, ranks: int, per_rank: int) -> tuple[NDArray[Any], NDArray[Any], int]:
    """The features and the labels of the samples that count, over all ranks, and how many batches each rank had."""
    of_ranks = [list(part.evaluate(rank=rank, ranks=ranks, per_rank=per_rank)) for rank in range(ranks)]
    (steps,) = {len(batches) for batches in of_ranks}
    batches = [batch for batches in of_ranks for batch in batches]
    assert {len(values) for batch in batches for values in batch} <= {per_rank}
    if not batches:
        return np.empty(0), np.empty(0), 0
    features, labels, weights = (np.concatenate(values) for values in zip(*batches, strict=True))
    return features[weights > 0], labels[weights > 0], steps
