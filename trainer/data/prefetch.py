"""Makes batches ahead in a thread, while the loop trains on earlier ones. Used by `trainer.data.opening`."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


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
