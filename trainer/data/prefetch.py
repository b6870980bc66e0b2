"""Batches made ahead by a thread, while the loop trains on those before. Used by `trainer.data.opening`."""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from queue import Queue
from threading import Event, Thread
from typing import TypeVar

T = TypeVar("T")


@dataclass(frozen=True)
class _End:
    """The last thing in the queue; `error` is what ended the items, if not their end."""

    error: BaseException | None = None


def prefetched(items: Iterator[T], *, ahead: int = 2) -> Generator[T, None, None]:
    """The same items, up to `ahead` of them made before they are asked for; an error comes where it would have come.

    The thread starts with the first item asked for. Closing the generator ends it, after the item it is working on.
    """
    queue: Queue[T | _End] = Queue(ahead)
    closed = Event()
    # A daemon: a process that leaves without closing must not wait for a thread that waits for it.
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
