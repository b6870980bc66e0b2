"""Which ranks of an attempt count as gone."""

import os
from collections.abc import Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import pytest

from jobs.model.records import RankExited
from jobs.model.states import EndReason
from worker.attempt.rank_watch import RankWatch

if TYPE_CHECKING:
    from jobs.intake.intake import Intake

HERE, GONE = os.getpid(), 2**22 + 1  # a pid above the largest that Linux gives


def is_gone(pids: Mapping[int, int], completed: tuple[int, ...], *, is_script: bool = True) -> bool:
    """Whether a rank of two on one host is gone, by the pids of those that have started."""
    exits = {rank: RankExited(at=0.0, reason=EndReason.COMPLETED) for rank in completed}
    intake = SimpleNamespace(is_script=is_script, pids=pids, exits=exits)
    watch = RankWatch(cast("Intake", intake), range(2), ranks=2, started_at=None)
    return any(watch.one_is_gone_for(-1.0) for _ in range(2))


@pytest.mark.parametrize(
    ("pids", "completed", "gone"),
    [
        ({}, (), False),
        ({0: HERE, 1: HERE}, (), False),
        ({0: GONE, 1: HERE}, (), True),
        ({0: GONE, 1: HERE}, (0,), False),
        ({0: GONE}, (0,), False),  # the other one starts late, as on a busy host
        ({0: GONE, 1: GONE}, (0,), True),
        ({0: GONE, 1: GONE}, (0, 1), True),
    ],
)
def test_a_rank_of_a_script_that_completed_is_not_gone_before_the_others(
    pids: Mapping[int, int], completed: tuple[int, ...], gone: bool
) -> None:
    assert is_gone(pids, completed) == gone


def test_a_rank_that_trains_is_gone_once_it_has_completed() -> None:
    """The others need it in each step."""
    assert is_gone({0: GONE, 1: HERE}, (0,), is_script=False)
