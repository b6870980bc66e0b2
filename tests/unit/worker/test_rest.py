"""How long the copier rests after a copy: by the processor time that the copy used."""

import time
from contextlib import suppress

import pytest

from worker.copies.rest import Rest


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """What the clocks show: `now`, and the processor time that was `used`, in seconds."""
    clock = {"now": 1000.0, "used": 50.0}
    monkeypatch.setattr(time, "monotonic", lambda: clock["now"])
    monkeypatch.setattr(time, "process_time", lambda: clock["used"])
    return clock


def copy(rest: Rest, clock: dict[str, float], *, used_s: float, took_s: float = 0.0) -> None:
    with rest.after_copy():
        clock["used"] += used_s
        clock["now"] += took_s


def rests_for(rest: Rest, clock: dict[str, float]) -> int:
    """Let time pass until a copy may begin. For how many seconds that is, rounded up."""
    began = clock["now"]
    while rest.is_on:
        clock["now"] += 1.0
    return int(clock["now"] - began)


def test_copies_at_the_same_time_add_up_and_none_rests_for_more_than_five_minutes(clock: dict[str, float]) -> None:
    rest = Rest(cores=2)
    copy(rest, clock, used_s=0.09)
    copy(rest, clock, used_s=0.1)
    assert rests_for(rest, clock) == 48
    for _ in range(3):
        copy(rest, clock, used_s=1.9)
    assert rests_for(rest, clock) == 300


def test_copies_use_a_five_hundredth_of_the_cores_and_one_that_fails_begins_no_rest(clock: dict[str, float]) -> None:
    rest = Rest(cores=4)
    assert not rest.is_on
    copy(rest, clock, used_s=0.5, took_s=20.0)
    assert rests_for(rest, clock) == 63  # 0.5 s / 4 cores x 500
    with suppress(OSError), rest.after_copy():
        clock["used"] += 1.0
        raise OSError
    assert not rest.is_on
