"""Makes batches ahead in a thread, while the loop trains on earlier ones. Used by `trainer.data.opening`.

prefetched      items, some of them made in advance
placed          batches, copied to where the steps run
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from queue import Queue
from threading import Event, Thread
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")
B = TypeVar("B", bound=NamedTuple)
Place = Callable[[Any], Any]  # an array -> the same on the device where the steps run


@dataclass(frozen=True)
class _End:
    """The last thing in the queue. `error` is set if an error ended the items."""

    error: BaseException | None = None


def prefetched(items: Iterator[T], *, ahead: int = 2) -> Generator[T, None, None]:
    """The same items, with up to `ahead` of them made in advance. An error is raised at its place among them.

    The thread starts with the first item asked for. Closing the generator ends it, after the item it is working on.
    """
    queue: Queue[T | _End] = Queue(ahead)
    closed = Event()
    # A daemon: a process may exit without closing this, and must not wait for the thread.
    thread = Thread(target=_fill, args=(items, queue, closed), name="prefetch", daemon=True)
    thread.start()
    try:
        while not isinstance(item := queue.get(), _End):
            yield item
        if item.error is not None:
            raise item.error
    finally:
        closed.set()
        while not queue.empty():  # room for the one item that the thread may be waiting to put
            queue.get_nowait()
        thread.join()


def placed(batches: Generator[B, None, None], place: Place | None) -> Generator[B, None, None]:
    """The same batches in the same sequence, two of them copied ahead by a thread. Without `place` as they are."""
    if place is None:
        return batches
    return prefetched(_copied(batches, place))


def _copied(batches: Generator[B, None, None], place: Place) -> Generator[B, None, None]:
    with closing(batches):
        for batch in batches:
            yield type(batch)(*map(place, batch))


def _fill(items: Iterator[T], queue: "Queue[T | _End]", closed: Event) -> None:
    end = _End()
    try:
        for item in items:
            queue.put(item)
            if closed.is_set():
                break
    except BaseException as error:
        end = _End(error)
    finally:
        if isinstance(items, Generator):
            items.close()  # in this thread: it may have threads and files of its own
    if not closed.is_set():
        queue.put(end)
