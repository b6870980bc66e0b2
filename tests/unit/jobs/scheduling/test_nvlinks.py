"""Which of a host's free GPUs a job gets."""

import json
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.scheduling.nvlinks import Links, best_cards, joined_pairs, links_of

PAIRS = Links({(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4})
# The cube mesh of a DGX-1 with V100: two links between some pairs, one between others, none between the rest.
CUBE = Links(
    {
        (0, 1): 1, (0, 2): 1, (0, 3): 2, (0, 4): 2, (1, 2): 2, (1, 3): 1, (1, 5): 2, (2, 3): 2, (2, 6): 1, (3, 7): 1,
        (4, 5): 1, (4, 6): 1, (4, 7): 2, (5, 6): 2, (5, 7): 1, (6, 7): 2,
    }
)  # fmt: skip


@pytest.mark.parametrize(
    ("free", "number", "cards"),
    [
        ((0, 1, 2, 3), 2, (0, 1)),
        ((1, 2, 3), 2, (2, 3)),  # 1 and 2 are not joined
        ((0, 2, 4, 5), 2, (4, 5)),
        ((0, 1, 2, 4, 5), 1, (2,)),  # it breaks no pair
        ((1, 2, 3, 4, 5), 3, (1, 2, 3)),
        ((0, 1, 2, 3, 4), 4, (0, 1, 2, 3)),
        ((0, 2, 4, 6), 2, (0, 2)),  # nothing is joined: the lowest indices
    ],
)
def test_a_job_gets_joined_cards_and_leaves_joined_ones(
    free: tuple[int, ...], number: int, cards: tuple[int, ...]
) -> None:
    assert best_cards(free, number, PAIRS) == cards


def test_more_links_are_better_and_neighbouring_ranks_are_joined() -> None:
    assert best_cards(tuple(range(8)), 2, CUBE) == (0, 3)
    assert best_cards((0, 1, 2, 3), 4, CUBE) == (0, 3, 2, 1)
    assert best_cards((0, 5, 6), 2, CUBE) == (5, 6)
    all_equal = Links(dict.fromkeys(combinations(range(16), 2), 18))
    assert best_cards((1, 4, 6), 2, None) == (1, 4), "without links the lowest indices"
    assert best_cards(tuple(range(16)), 8, all_equal) == tuple(range(8))
    assert joined_pairs((0, 1, 2, 3), 4, PAIRS) == 2
    assert joined_pairs((0, 2, 4), 2, PAIRS) == 0
    assert joined_pairs((0, 1), 1, PAIRS) == joined_pairs((0, 1), 2, None) == 0


def test_a_large_host_is_searched_card_by_card() -> None:
    """Of 16 cards there are 12,870 sets of eight. The two islands are found without looking at all of them."""
    islands = Links({pair: 2 for pair in combinations(range(16), 2) if (pair[0] % 2) == (pair[1] % 2)})
    assert sorted(best_cards(tuple(range(16)), 8, islands)) == list(range(0, 16, 2))
    assert sorted(best_cards(tuple(range(1, 16)), 8, islands)) == list(range(1, 16, 2))


def test_links_are_read_from_the_topology_that_a_host_registered() -> None:
    pairs = [((0, 1), 4), ((2, 0), 2), ((1, 2), None), ((1, 3), 0)]
    topology = json.dumps([{"gpus": gpus, "nvlinks": links, "pcie": "node"} for gpus, links in pairs])
    links = links_of(topology)
    assert links.by_pair == {(0, 1): 4, (0, 2): 2}
    assert links.between(1, 0) == 4
    assert links_of(topology) is links
    assert links_of(None) is links_of("null") is links_of("[]") is None


@given(
    st.sets(st.integers(0, 9), min_size=1),
    st.integers(1, 10),
    st.dictionaries(st.sampled_from([*combinations(range(10), 2)]), st.integers(1, 4)),
)
def test_no_other_set_of_a_small_host_has_more_links(
    cards: set[int], number: int, by_pair: dict[tuple[int, int], int]
) -> None:
    free, links = tuple(sorted(cards)), Links(by_pair)
    number = min(number, len(free))
    chosen = best_cards(free, number, links)
    assert len(set(chosen)) == len(chosen) == number
    assert set(chosen) <= set(free)
    assert links.within(sorted(chosen)) == max(map(links.within, combinations(free, number)))
