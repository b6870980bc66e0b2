"""Hints: Celery messages that say "look at the rows". Sent by api, dispatcher and supervisor, received by workers.

A hint may be lost, doubled or late, because every worker's reconcile loop also reads the rows. So jobs run without the
broker. It only makes them start at once.
"""

import logging
import queue
import threading
from collections.abc import Callable, Sequence

from celery import Celery, Task
from kombu.entity import Exchange, Queue
from kombu.message import Message

DISPATCH_TASK = "hora.dispatch"
LAUNCH_TASK = "hora.launch"
DISPATCH_QUEUE = "hora.dispatch"
_MERGED_S = 0.02  # dispatch hints that follow each other so soon are merged

_log = logging.getLogger(__name__)


def host_queue(host: str) -> str:
    """The queue that only the worker on `host` reads."""
    return f"hora.host.{host}"


def celery_app(broker_url: str) -> Celery:
    """A Celery application on the broker, with early acks and no results: the database has the state."""
    app = Celery("hora", broker=broker_url, set_as_current=False)
    app.conf.update(
        task_ignore_result=True,
        task_acks_late=False,
        task_create_missing_queues=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"socket_timeout": 5, "socket_connect_timeout": 5, "socket_keepalive": True},
        task_default_queue=DISPATCH_QUEUE,
    )
    return app


def receive_hints(
    app: Celery, queues: Sequence[str], *, dispatch: Callable[[], None], launch: Callable[[int], None]
) -> None:
    """Let the worker of this application read these queues, and act on the hints there.

    `dispatch()` and `launch(attempt_id)` are called in the thread that reads them. So they must not wait. What Celery
    does for a task is not needed for a hint: it is neither acknowledged nor logged, and it takes no thread of the pool.
    """
    app.conf.task_queues = [
        Queue(name, Exchange(name), routing_key=name, no_ack=True)  # type: ignore[no-untyped-call]
        for name in queues
    ]
    for task, action in {DISPATCH_TASK: dispatch, LAUNCH_TASK: launch}.items():
        app.task(name=task, Strategy=staticmethod(_strategy))(action)


def _strategy(task: Task, _app: Celery, _consumer: object) -> Callable[..., None]:
    """How Celery's consumer handles a message of this task."""

    def act(message: Message, *_: object) -> None:
        try:
            args, *_ = message.payload
            task.run(*args)
        except Exception:  # of a hint that nobody of this version sent
            _log.exception("a hint %s was not understood", task.name)

    return act


class Hints:
    """Sends hints in a thread of its own, so that no caller waits for the broker or fails with it."""

    def __init__(self, broker_url: str) -> None:
        self._app = celery_app(broker_url)
        # Even with `retry=False` kombu would try for six seconds to open the connection.
        self._app.conf.broker_transport_options |= {"max_retries": 1, "interval_start": 0, "interval_max": 0}
        self._pending: queue.SimpleQueue[tuple[str, tuple[int, ...], str] | None] = queue.SimpleQueue()
        self._dispatch_pending = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._send_all, name="hints", daemon=True)
        self._thread.start()

    def dispatch(self) -> None:
        """Send the hint that a job may be placed now. Hints that are not sent yet are merged into one.

        The first of several is sent at once, and the others together a moment later.
        """
        if not self._dispatch_pending.is_set():
            self._dispatch_pending.set()
            self._pending.put((DISPATCH_TASK, (), DISPATCH_QUEUE))

    def launch(self, attempt_id: int, *, host: str) -> None:
        """Send the hint that an attempt waits for its supervisor on `host`."""
        self._pending.put((LAUNCH_TASK, (attempt_id,), host_queue(host)))

    def close(self, timeout_s: float = 2.0) -> None:
        """Send the remaining hints, for at most `timeout_s`."""
        self._closing.set()
        self._pending.put(None)
        self._thread.join(timeout_s)

    def _send_all(self) -> None:
        while (hint := self._pending.get()) is not None:
            task, args, to = hint
            if task == DISPATCH_TASK:
                self._dispatch_pending.clear()
            try:
                self._app.send_task(task, args, queue=to, retry=False)
            except Exception as error:  # after any error the next hint is tried
                _log.warning("hint %s not sent: %s", task, error)
            if task == DISPATCH_TASK:
                self._closing.wait(_MERGED_S)
