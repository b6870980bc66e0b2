"""Which GPU of a node a rank has, by the name that Slurm gave it."""

from types import SimpleNamespace

import pytest

from worker.sampling.node_sampler import match

CARDS = [SimpleNamespace(index=index, uuid=f"GPU-{index}abc") for index in range(4)]


@pytest.mark.parametrize(
    ("named", "found", "indices"),
    [
        (["2", "3"], CARDS, [2, 3]),  # all cards are seen: the numbers are NVML's own
        (["0", "1"], CARDS[2:], [2, 3]),  # control groups hide the others: Slurm counts from 0
        (["GPU-3abc", "GPU-1"], CARDS, [3, 1]),
        (["7", "GPU-9"], CARDS, [None, None]),
        (["0"], [], [None]),
    ],
)
def test_a_rank_has_the_card_that_slurm_names(
    named: list[str], found: list[SimpleNamespace], indices: list[int | None]
) -> None:
    assert [None if gpu is None else gpu.index for gpu in match(named, found)] == indices  # type: ignore[arg-type]
