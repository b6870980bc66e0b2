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


def nothing(passes: Passes) -> None:
    """A pass that works."""


@pytest.mark.parametrize(("rests_first", "expected"), [(True, [5.0, 10.0, 15.0]), (False, [0.0, 5.0, 10.0])])
def test_a_pass_is_made_once_a_period(rests_first: bool, expected: list[float]) -> None:
    passes = Passes(rests_first=rests_first, during=nothing)
    passes.run()
    assert passes.started_at == expected


def test_pause_length_is_asked_again_after_every_pass() -> None:
    class Slower(Passes):
        def pause_s(self) -> float:
            return 2.0 ** len(self.started_at)

    passes = Slower(rests_first=False, during=nothing)
    passes.run()
    assert passes.started_at == [0.0, 2.0, 6.0]


def test_wake_during_a_pass_starts_the_next_one_at_once() -> None:
    def wake_in_first(passes: Passes) -> None:
        if len(passes.started_at) == 1:
            passes.wake()

    passes = Passes(during=wake_in_first)
    passes.run()
    assert passes.started_at == [5.0, 5.0, 10.0]


def test_a_thread_that_is_stopped_before_its_first_pass_makes_none() -> None:
    passes = Passes(during=nothing)
    passes.stop()
    passes.run()
    assert passes.started_at == []


def test_stop_during_a_pass_skips_the_pause_after_it() -> None:
    passes = Passes(most=2, during=nothing)
    passes.run()
    assert passes.started_at == [5.0, 10.0]
    assert passes.now_s == 10.0


def test_a_pass_that_fails_is_logged_and_the_next_one_is_made(caplog: pytest.LogCaptureFixture) -> None:
    def fail_in_first(passes: Passes) -> None:
        if len(passes.started_at) == 1:
            raise ValueError("this one")

    passes = Passes(during=fail_in_first)
    passes.run()
    assert passes.started_at == [5.0, 10.0, 15.0]
    assert caplog.messages == ["passes: a pass failed, the next one tries again"]
    assert "ValueError: this one" in caplog.text


def test_unreachable_database_is_logged_in_one_line_without_a_traceback(caplog: pytest.LogCaptureFixture) -> None:
    def find_it_away(passes: Passes) -> None:
        raise OperationalError("SELECT 1", {}, psycopg.OperationalError("connection refused"))

    Passes(most=1, during=find_it_away).run()
    assert [(record.levelno, record.getMessage(), record.exc_info) for record in caplog.records] == [
        (
            logging.WARNING,
            "passes: the database is away or busy, the next pass tries again: connection refused",
            None,
        )
    ]


def watched(passes: Passes) -> None:
    passes.watch(math.inf)


def test_a_watched_thread_rests_longer() -> None:
    passes = Passes(rests_first=False, period_s=1.0, during=watched)
    passes.run()
    assert passes.started_at == [0.0, 60.0, 120.0]


def test_a_pause_that_is_longer_than_the_rest_stays() -> None:
    passes = Passes(rests_first=False, period_s=100.0, during=watched)
    passes.run()
    assert passes.started_at == [0.0, 100.0, 200.0]


def test_work_ends_the_rest_and_not_the_pause_before_it() -> None:
    def find_work(passes: Passes) -> None:
        passes.watch(math.inf)
        passes.found()

    passes = Passes(rests_first=False, period_s=1.0, during=find_work)
    passes.run()
    assert passes.started_at == [0.0, 1.0, 2.0]


def test_who_is_woken_rests_no_longer() -> None:
    def wake_in_first(passes: Passes) -> None:
        passes.watch(math.inf)
        if len(passes.started_at) == 1:
            passes.wake()

    passes = Passes(rests_first=False, period_s=1.0, during=wake_in_first)
    passes.run()
    assert passes.started_at == [0.0, 0.0, 60.0]


def test_a_pass_that_failed_is_not_followed_by_a_longer_rest() -> None:
    def fail(passes: Passes) -> None:
        passes.watch(math.inf)
        raise ValueError("this one")

    passes = Passes(rests_first=False, period_s=1.0, during=fail)
    passes.run()
    assert passes.started_at == [0.0, 1.0, 2.0]


def test_a_thread_does_not_count_on_a_lookout_that_looks_no_more() -> None:
    """It is dead, hangs or gets no answers."""

    def watched_once(passes: Passes) -> None:
        if len(passes.started_at) == 1:
            passes.watch(3.0)

    passes = Passes(rests_first=False, period_s=1.0, during=watched_once)
    passes.run()
    assert passes.started_at == [0.0, 3.0, 4.0]


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
