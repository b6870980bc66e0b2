"""Work on some samples of a batch in small groups, by several threads. Used by `trainer.data.augment` and `mixing`."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass

import numpy as np

from trainer.data.interfaces import Features, Indices

_GROUP_BYTES = 2**19  # what is made of them on the way stays in the processor's cache


@dataclass(frozen=True)
class InGroups:
    """Calls a function with the places of samples, a group at a time. The groups are of one size, but for the last."""

    pool: Executor
    threads: int

    def __call__(self, change: Callable[[Indices], None], chosen: Indices, samples: Features) -> None:
        """Returns when it was called for all that are `chosen` of the samples."""
        if not len(chosen):
            return
        size = max(1, min(_GROUP_BYTES // samples[0].nbytes, -(-len(chosen) // self.threads)))
        groups = np.split(chosen, range(size, len(chosen), size))
        if self.threads == 1:
            for group in groups:
                change(group)
        else:
            list(self.pool.map(change, groups))  # raises what a thread raised
