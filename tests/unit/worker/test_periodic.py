"""The base of the worker's periodic threads, with a clock that moves only while a thread waits."""

import logging
import math
import threading
from collections.abc import Callable

import psycopg
import pytest
from sqlalchemy.exc import OperationalError

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
