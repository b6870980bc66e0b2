"""The ledger: every leased second counts once, in whatever sequence things happened."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobs.insight.analysis.evidence import EpochSteps, Run
from jobs.insight.analysis.ledger import ledger_of
from jobs.insight.analysis.stalls import Pause
from jobs.insight.analysis.steps import Split
from jobs.views.analysis import LedgerItem, StallCause

I = LedgerItem  # noqa: E741 - read in a table
SPLIT = Split(data_wait=0.2, communication=0.3, compute=0.5)


def an_epoch(epoch: int, began_at: float, *, steps: int = 10, step_s: float = 1.0) -> EpochSteps:
    """Ten steps of a second."""
    first = (epoch - 1) * steps + 1
    return EpochSteps(epoch, first, first + steps - 1, began_at, began_at + step_s, began_at + steps * step_s)


def a_pause(began_at: float, length_s: float, *, attempt: int = 1) -> Pause:
    return Pause(attempt, began_at, length_s, 1, 1.0, ongoing=False, cause=StallCause.UNKNOWN)


def spent(*runs: Run, pauses: tuple[Pause, ...] = (), best_epoch: int | None = None, **fields: Any) -> dict[str, float]:
    """The items that are not 0. Checks that all items add up to the leased time."""
    splits = {run.number: SPLIT for run in runs}
    ledger = ledger_of(runs, pauses, splits, best_epoch=best_epoch, **fields)
    assert sum(ledger.items.values()) == pytest.approx(ledger.leased_s)
    return {item.value: pytest.approx(seconds) for item, seconds in ledger.items.items() if seconds > 1e-9}


def a_run(**fields: Any) -> Run:
    """Two slots; leased at 0, started at 5; epochs of ten steps at 19 and 32, each validated in 2 s."""
    usual: dict[str, Any] = {
        "number": 1, "slots": 2, "leased_at": 0.0, "started_at": 5.0, "ended_at": 50.0, "ended_well": True,
        "epochs": (an_epoch(1, 19.0), an_epoch(2, 32.0)), "validated_at": {1: 31.0, 2: 44.0},
        "saves": ((31.2, 31.7), (44.5, 45.5)),
    }  # fmt: skip
    return Run(**usual | fields)


def test_the_ledger_covers_a_run_from_its_lease_to_its_end() -> None:
    # 9 s of steps in the first epoch, whose first step is set-up, and 10 in the second; 2 x 2 s of validation.
    assert spent(a_run(), best_epoch=2) == {
        "launch": 10.0,
        "set_up": 30.0,
        "useful": 2 * (0.5 * 19 + 4),
        "data_wait": 2 * 0.2 * 19,
        "communication": 2 * 0.3 * 19,
        "saving": 2 * 1.5,
        "idle": 2 * (50 - 45.5 + 0.5 + 0.2 + 0.3),
    }


def test_time_after_the_best_epoch_counts_as_after_best() -> None:
    items = spent(a_run(), best_epoch=1)

    assert items["after_best"] == 2 * (10 + 2 + 1.0)
    assert items["useful"] == 2 * (0.5 * 9 + 2)
    assert items["saving"] == 2 * 0.5


def test_stalled_time_is_subtracted_from_the_item_it_interrupts() -> None:
    in_steps, in_validation = a_pause(22.0, 3.0), a_pause(42.5, 1.0)

    items = spent(a_run(), pauses=(in_steps, in_validation), best_epoch=1)

    assert items["stalled"] == 2 * (3.0 + 1.0)
    assert items["data_wait"] == 2 * 0.2 * (9 - 3)
    assert items["after_best"] == 2 * (10 + 2 + 1.0 - 1.0)
    overlapping = (a_pause(21.0, 4.0), a_pause(22.0, 5.0))
    assert spent(a_run(), pauses=overlapping, best_epoch=2)["stalled"] == 2 * 6.0


def test_steps_that_a_later_attempt_repeated_are_lost() -> None:
    # The second attempt goes on after step 10: the first one loses its second epoch, with validation and checkpoint.
    items = spent(a_run(void_after=10, ended_well=False), best_epoch=None)

    assert items["lost"] == 2 * (10 + 2 + 1.0)
    assert items["useful"] == 2 * (0.5 * 9 + 2)
    assert spent(a_run(void_after=15, epochs=(an_epoch(2, 19.0),), validated_at={}, saves=()))["lost"] == 2 * 5.0


NO_STEP: dict[str, Any] = {"epochs": (), "validated_at": {}, "saves": ()}


@pytest.mark.parametrize(
    ("fields", "is_probe", "items"),
    [
        ({"started_at": None, "epochs": ()}, False, {"launch": 100.0}),
        (NO_STEP, False, {"launch": 10.0, "set_up": 90.0}),
        (NO_STEP | {"set_up_s": 8.0}, True, {"launch": 10.0, "set_up": 16.0, "useful": 74.0}),
        (NO_STEP | {"set_up_s": 3.0, "is_script": True}, False, {"launch": 10.0, "set_up": 6.0, "useful": 84.0}),
    ],
)
def test_without_a_step_only_a_probe_and_a_script_are_useful_after_their_set_up(
    fields: dict[str, Any], is_probe: bool, items: dict[str, float]
) -> None:
    assert spent(a_run(**fields), is_probe=is_probe) == items


moments = st.floats(-50, 150)


@st.composite
def a_history(draw: st.DrawFn) -> Run:
    """Any times in any order, as clocks of several hosts may give them."""

    def stretch() -> tuple[float, float]:
        return draw(moments), draw(moments)

    def epoch(number: int) -> EpochSteps:
        began, trained, ended = sorted(draw(moments) for _ in range(3))
        return EpochSteps(number, 10 * number - 9, 10 * number, began, trained, ended)

    numbers = range(1, 1 + draw(st.integers(0, 4)))
    return Run(
        number=draw(st.integers(1, 3)),
        slots=draw(st.integers(1, 8)),
        leased_at=draw(st.floats(-10, 10)),
        started_at=draw(st.none() | moments),
        ended_at=draw(st.floats(-20, 120)),
        void_after=draw(st.none() | st.integers(0, 50)),
        epochs=[epoch(number) for number in numbers],
        validated_at={number: draw(moments) for number in numbers if draw(st.booleans())},
        saves=[stretch() for _ in numbers],
    )


@given(
    st.lists(a_history(), max_size=3),
    st.lists(st.builds(a_pause, moments, st.floats(0, 60), attempt=st.integers(1, 3)), max_size=4),
    st.none() | st.integers(1, 4),
    st.booleans(),
)
def test_items_add_up_to_the_leased_time_and_none_is_negative(
    runs: list[Run], pauses: list[Pause], best_epoch: int | None, is_probe: bool
) -> None:
    ledger = ledger_of(runs, pauses, dict.fromkeys((1, 2), SPLIT), best_epoch=best_epoch, is_probe=is_probe)

    assert ledger.leased_s == pytest.approx(sum(run.slots * max(0, run.ended_at - run.leased_at) for run in runs))
    assert sum(ledger.items.values()) == pytest.approx(ledger.leased_s, abs=1e-6)
    assert min(ledger.items.values()) >= 0
