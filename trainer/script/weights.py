"""Compares the weights of all ranks, as their scripts tell them: each rank with rank 0, through the store of the ranks.

Nobody waits for another rank. Each puts what its script told, and looks for the other's; whoever is later sees both.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

from trainer.script.store import Store

_TOLERANCE = 1e-5  # of the norm: all ranks get the same gradients, but not every kernel of a GPU repeats exactly
_MOST_MESSAGES = 1000  # of a script; one that trains sends about 20 of each optimizer
_NUMBERS = ("size", "total", "norm")


class WeightComparison:
    """What one rank knows of the weights of all ranks. It is asked after each message, and at the end."""

    def __init__(self, store: Store, *, rank: int, size: int) -> None:
        self._store = store
        self._others = range(1, size) if rank == 0 else range(1)
        self._rank = rank
        self._own: dict[str, Mapping[str, Any]] = {}  # by key, in the order of the script
        self._averages = self._are_equal = False
        self.uncompared: str | None = None  # why some weights were not compared at the end, as a sentence

    def take(self, message: Mapping[str, Any]) -> str | None:
        """Keep and compare what the script told. Returns how the ranks differ, as a sentence; None: they do not."""
        if len(self._own) == _MOST_MESSAGES:
            return None
        key = f"weights-{message['optimizer']}-{message['step']}"
        self._own[key], self._averages = message, self._averages or message["averages"]
        self._store.put(f"{key}-{self._rank}", json.dumps([message[name] for name in _NUMBERS]))
        return self._differing(key)[0]

    def at_the_end(self) -> str | None:
        """How the ranks differ at the last step that both told; None if they do not, or if they train other models."""
        self.uncompared = None
        last: dict[int, list[str]] = {}
        for key, message in self._own.items():
            last.setdefault(message["optimizer"], []).insert(0, key)
        were_compared = [False]
        for keys in last.values():
            for key in keys:
                difference, was_compared = self._differing(key)
                if difference is not None:
                    return difference
                were_compared.append(was_compared)
                if was_compared:
                    break
        self._are_equal = any(were_compared)
        return None

    @property
    def does_same_work(self) -> bool:
        """Whether at the end all ranks had equal weights, although none of them averaged anything."""
        return self._are_equal and not self._averages

    def _differing(self, key: str) -> tuple[str | None, bool]:
        """How the weights differ there, and whether they could be compared with all others."""
        own, compared = self._own[key], 0
        for other in self._others:
            text = self._store.get(f"{key}-{other}")
            if text is None:
                continue
            share = difference([own[name] for name in _NUMBERS], json.loads(text))
            compared += share is not None
            if share is None:
                self.uncompared = self._of_other_size(max(other, self._rank), own["size"], json.loads(text)[0])
            if share is not None and not share <= _TOLERANCE:
                return self._sentence(own["step"], max(other, self._rank), share), True
        return None, compared == len(self._others)

    def _of_other_size(self, rank: int, own: float, other: float) -> str:
        first, there = (own, other) if self._rank == 0 else (other, own)
        return f"The model of rank {rank} has {there:,.0f} weights, and that of rank 0 has {first:,.0f}."

    def _sentence(self, step: int, rank: int, share: float) -> str:
        why = (
            "gradients were averaged, so the ranks began with different weights, or leave some gradients out"
            if self._averages
            else "no gradient was averaged, so each rank trains a model of its own"
        )
        size = "one has NaN" if math.isnan(share) else f"by {100 * share:.3g} %"
        return f"After step {step} the weights of rank {rank} differ from those of rank 0 ({size}): {why}."


def difference(own: list[float], other: list[float]) -> float | None:
    """The larger difference of sum and norm, as a share of the norm. None: these are not the weights of one model.

    A model whose weights are all NaN is equal to another such model. NaN: only one of them has NaN.
    """
    (size, total, norm), (other_size, other_total, other_norm) = own, other
    if size != other_size:
        return None
    if math.isnan(norm) and math.isnan(other_norm):
        return 0.0
    if norm == other_norm and total == other_total:  # also infinite ones
        return 0.0
    scale = max(norm, other_norm)
    if scale <= 0:  # no norm of weights whose sums differ; a script may send anything
        return math.inf
    return max(abs(total - other_total), abs(norm - other_norm)) / scale
