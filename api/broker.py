"""Whether the broker answers, for `GET /readyz`. It is asked at most every few seconds, and never for long."""

import threading
import time

from jobs.runtime.hints import celery_app

_FRESH_S = 3.0
_TIMEOUT_S = 1.0


class Broker:
    """The broker as the api sees it."""

    def __init__(self, url: str) -> None:
        self._app = celery_app(url)
        self._app.conf.broker_transport_options |= {
            "max_retries": 0, "interval_start": 0, "interval_max": 0,
            "socket_timeout": _TIMEOUT_S, "socket_connect_timeout": _TIMEOUT_S,
        }  # fmt: skip
        self._lock = threading.Lock()
        self._answered = False
        self._fresh_until = 0.0

    def answers(self) -> bool:
        """Whether it answered when it was last asked, within the last few seconds."""
        with self._lock:
            if time.monotonic() >= self._fresh_until:
                self._answered = self._ping()
                self._fresh_until = time.monotonic() + _FRESH_S
            return self._answered

    def _ping(self) -> bool:
        try:
            with self._app.connection_for_write() as connection:
                transport = connection.transport  # without `connect`, which would try again for seconds
                transport.close_connection(transport.establish_connection())
        except Exception:  # each transport has errors of its own
            return False
        return True
