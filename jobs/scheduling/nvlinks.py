"""Chooses among the free GPUs of a host those that NVLinks join. Pure; called by `jobs.scheduling.placement`.

A job's ranks exchange their gradients in every step, which is faster over NVLink than over PCIe.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from math import comb

_MOST_SETS = 1000  # that are compared; for more a good one is searched card by card

Pair = tuple[int, int]


@dataclass(frozen=True, eq=False)
class Links:
    """The NVLinks between the GPUs of a host: their number by pair of slots. Pairs without any are left out."""

    by_pair: Mapping[Pair, int]

    def between(self, one: int, other: int) -> int:
        """The number of NVLinks between two GPUs."""
        return self.by_pair.get((one, other) if one < other else (other, one), 0)

    def within(self, cards: Iterable[int]) -> int:
        """The number of NVLinks among some GPUs, which are sorted by index."""
        return sum(self.by_pair.get(pair, 0) for pair in combinations(cards, 2))

    def joined_pairs(self, cards: Iterable[int]) -> int:
        """The number of pairs among some GPUs, sorted by index, that are joined."""
        return sum(pair in self.by_pair for pair in combinations(cards, 2))

    def are_equal(self, cards: Iterable[int]) -> bool:
        """Whether it makes no difference which of these GPUs a job gets."""
        return len({self.by_pair.get(pair, 0) for pair in combinations(cards, 2)}) < 2


@lru_cache(maxsize=1024)
def links_of(topology: str | None) -> Links | None:
    """The links in what a host registered as its `topology`, as JSON. None if no GPUs are joined.

    Hosts of one build have equal texts, and then equal links.
    """
    by_pair: dict[Pair, int] = {}
    for entry in json.loads(topology or "null") or ():
        one, other = sorted(entry["gpus"])
        if entry.get("nvlinks"):
            by_pair[one, other] = entry["nvlinks"]
    return Links(by_pair) if by_pair else None


@lru_cache(maxsize=8192)
def best_cards(free: tuple[int, ...], number: int, links: Links | None) -> tuple[int, ...]:
    """The GPUs that a job gets, sorted by rank, of those that are `free`, which are sorted by index.

    They have the most NVLinks among them. Of equally good sets it is the one that leaves the most NVLinks among the
    other free GPUs, then the one with the lowest indices. Neighbouring ranks are joined if possible.
    """
    if links is None or number == len(free) == 1 or links.are_equal(free):
        return free[:number]
    few = comb(len(free), number) <= _MOST_SETS
    sets = combinations(free, number) if few else (_grown(free, first, number, links) for first in free)

    def value(cards: Sequence[int]) -> tuple[int, int]:
        return links.within(cards), links.within([card for card in free if card not in cards])

    return _chain(max(sets, key=value), links)  # of equal ones the first


def joined_pairs(free: tuple[int, ...], number: int, links: Links | None) -> int:
    """How many pairs are joined among the GPUs that a job would get of those that are `free`."""
    return 0 if links is None or number < 2 else links.joined_pairs(sorted(best_cards(free, number, links)))


def _grown(free: Sequence[int], first: int, number: int, links: Links) -> tuple[int, ...]:
    """A set that begins with one GPU. The next is always the one with the most links to it."""
    cards = [first]
    while len(cards) < number:
        others = (card for card in free if card not in cards)
        cards.append(max(others, key=lambda card: sum(links.between(card, taken) for taken in cards)))
    return tuple(sorted(cards))


def _chain(cards: Sequence[int], links: Links) -> tuple[int, ...]:
    """The cards in a sequence in which each is followed by the one with the most links to it."""
    chain, left = [cards[0]], list(cards[1:])
    while left:
        best = max(left, key=lambda card: links.between(chain[-1], card))
        chain.append(best)
        left.remove(best)
    return tuple(chain)
