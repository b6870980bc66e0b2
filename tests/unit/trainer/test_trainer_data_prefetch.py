"""Batches made ahead by a thread that always ends."""

import gc
import threading
from collections.abc import Iterator
from itertools import count

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.waiting import until
from trainer.data.interfaces import Batch
from trainer.data.prefetch import placed, prefetched


class Source:
    """Counts the items it gives, and keeps the thread that closed it."""

    def __init__(self, items: int | None = None) -> None:
        self.given = 0
        self.closed_by: threading.Thread | None = None
        self._items = items

    def __call__(self) -> Iterator[int]:
        try:
            for number in count() if self._items is None else range(self._items):
                self.given += 1
                yield number
        finally:
            self.closed_by = threading.current_thread()


def threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "prefetch"]


def test_items_come_in_their_order_and_end() -> None:
    assert list(prefetched(iter([]))) == []
    source = Source(100)
    nested = prefetched(number * 2 for number in prefetched(source()))
    assert list(nested) == list(range(0, 200, 2))
    nested = prefetched(prefetched(source()))
    assert next(nested) == 0
    nested.close()
    assert not threads()
    assert source.closed_by is not None


def test_two_items_are_made_ahead_and_a_third_waits() -> None:
    source = Source()
    prefetched(source()).close()
    items = prefetched(source())
    assert (source.given, threads()) == (0, [])  # nothing is asked for yet
    assert next(items) == 0
    until(lambda: source.given == 4, what="two in the queue and one in the hand")
    items.close()
    assert source.given == 4


@pytest.mark.parametrize(("taken", "dropped"), [(1, False), (3, False), (1, True)])
def test_closing_or_dropping_ends_the_thread_and_the_source(taken: int, dropped: bool) -> None:
    source = Source()
    items = prefetched(source())
    (thread,) = [threads() for _ in range(taken) if next(items) >= 0][-1]
    if dropped:
        del items
        gc.collect()
    else:
        items.close()
    assert not thread.is_alive()
    assert source.closed_by is thread


def test_an_error_comes_after_the_items_before_it() -> None:
    def broken() -> Iterator[int]:
        yield 1
        yield 2
        raise OSError("the disk is gone")

    items = prefetched(broken())
    assert [next(items), next(items)] == [1, 2]
    with pytest.raises(OSError, match="the disk is gone"):
        next(items)
    assert not threads()


def test_batches_are_copied_ahead_by_the_thread_and_keep_their_order_and_kind() -> None:
    copied_by: list[threading.Thread] = []

    def copy(array: NDArray[np.int32]) -> NDArray[np.int32]:
        copied_by.append(threading.current_thread())
        return array + 100

    source = Source()
    batches = placed((Batch(np.array([n]), np.array([-n], np.int32)) for n in source()), copy)
    assert [(int(b.features[0]), int(b.labels[0])) for b in (next(batches), next(batches))] == [(100, 100), (101, 99)]
    until(lambda: len(copied_by) == 2 * 5, what="two handed over, two in the queue and one in the hand")
    assert set(copied_by) == set(threads())
    batches.close()
    assert not threads()
    assert source.closed_by is not None
    assert placed(batches, None) is batches  # copied nowhere
