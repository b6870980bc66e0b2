"""The base of the worker's periodic threads, and how long the copier rests. Clocks move only while a thread waits."""

import logging
import math
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

from worker.copies.rest import Rest
from worker.periodic import PeriodicThread


class Passes(PeriodicThread):
    """Records the time of each pass and stops after `most` passes. Most tests call `run` in their own thread."""

    def __init__(
        self, *, period_s: float = 5.0, rests_first: bool = True, most: int = 3, during: Callable[["Passes"], None]
    ) -> None:
        super().__init__(
            "passes", period_s=period_s, rests_first=rests_first, wait=self._advance, now=lambda: self.now_s
        )
        self.now_s = 0.0
        self.started_at: list[float] = []
        self._most = most
        self._during = during

    def _advance(self, event: threading.Event, seconds: float) -> None:
        if not event.is_set():
            self.now_s += seconds

    def once(self) -> None:
        self.started_at.append(self.now_s)
        if len(self.started_at) == self._most:
            self.stop()
        self._during(self)


def passes_that(*things: str) -> Callable[[Passes], None]:
    """What is done during each pass, or the first one: watch, wake, find or fail."""

    def during(passes: Passes) -> None:
        is_first = len(passes.started_at) == 1
        if "are watched" in things or ("are watched once" in things and is_first):
            passes.watch(math.inf if "are watched" in things else 3.0)
        if "are woken in the first" in things and is_first:
            passes.wake()
        if "find work" in things:
            passes.found()
        if "fail" in things:
            raise ValueError("this one")

    return during


@pytest.mark.parametrize(
    ("things", "period_s", "rests_first", "expected"),
    [
        ([], 5.0, True, [5.0, 10.0, 15.0]),
        ([], 5.0, False, [0.0, 5.0, 10.0]),
        (["are woken in the first"], 5.0, True, [5.0, 5.0, 10.0]),  # the next pass begins at once
        (["are watched"], 1.0, False, [0.0, 60.0, 120.0]),  # it rests longer
        (["are watched"], 100.0, False, [0.0, 100.0, 200.0]),  # a pause that is longer than the rest stays
        (["are watched", "find work"], 1.0, False, [0.0, 1.0, 2.0]),  # work ends the rest and not the pause before it
        (["are watched", "are woken in the first"], 1.0, False, [0.0, 0.0, 60.0]),
        (["are watched", "fail"], 1.0, False, [0.0, 1.0, 2.0]),
        (["are watched once"], 1.0, False, [0.0, 3.0, 4.0]),  # the lookout is dead later, hangs or gets no answers
    ],
)
def test_passes_are_made_once_a_period_and_after_a_longer_rest_while_a_lookout_finds_no_work(
    things: list[str], period_s: float, rests_first: bool, expected: list[float]
) -> None:
    passes = Passes(during=passes_that(*things), period_s=period_s, rests_first=rests_first)
    passes.run()
    assert passes.started_at == expected
    assert passes.now_s == expected[-1], "no pause after a stop"
    passes.run()
    assert passes.started_at == expected, "a stopped thread makes no pass"


def test_a_pass_that_fails_is_logged_and_one_without_a_database_in_one_line(caplog: pytest.LogCaptureFixture) -> None:
    def find_it_away(passes: Passes) -> None:
        raise OperationalError("SELECT 1", {}, psycopg.OperationalError("connection refused"))

    Passes(most=1, during=passes_that("fail")).run()
    assert "ValueError: this one" in caplog.text
    Passes(most=1, during=find_it_away).run()
    away = "passes: the database is away or busy, the next pass tries again: connection refused"
    assert caplog.messages == ["passes: a pass failed, the next one tries again", away]
    assert (caplog.records[1].levelno, caplog.records[1].exc_info) == (logging.WARNING, None)


def test_pause_length_is_asked_again_after_every_pass() -> None:
    class Slower(Passes):
        def pause_s(self) -> float:
            return 2.0 ** len(self.started_at)

    passes = Slower(rests_first=False, during=passes_that())
    passes.run()
    assert passes.started_at == [0.0, 2.0, 6.0]


def test_stop_waits_for_the_current_pass() -> None:
    in_pass, may_end = threading.Event(), threading.Event()

    def take_long(passes: Passes) -> None:
        in_pass.set()
        assert may_end.wait(10)

    passes = Passes(most=2, during=take_long)
    passes.start()
    assert in_pass.wait(10)
    assert not passes.stop()
    assert passes.is_alive()
    may_end.set()
    assert passes.stop(wait_s=10)
    assert passes.started_at == [5.0]


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
