"""The people of a round: each submits one job. Some cancel their job, or pause it and resume it.

They use only the apis. If one does not answer, they ask the next one. What an api has confirmed must stay true.
"""

import threading
import time
from collections.abc import Callable, Sequence
from itertools import cycle
from typing import TypeVar

from hora.service import HoraError, Json, ProblemError, Service, ServiceUnavailable
from tests.chaos.script import Moment, PlannedJob, Wish
from tests.chaos.stage import Stage

_RETRY_FOR_S = 60.0  # the service may be down for this long
_PAUSE_S = 0.3
_POLL_S = 0.1
_SINCE = {  # the statuses in which a moment has come or is over
    Moment.QUEUED: frozenset({"queued", "launching", "running", "succeeded", "failed", "cancelled"}),
    Moment.LAUNCHING: frozenset({"launching", "running", "succeeded", "failed", "cancelled"}),
    Moment.RUNNING: frozenset({"running", "succeeded", "failed", "cancelled"}),
}
_T = TypeVar("_T")


class Clients:
    """The apis of a stage, as people use them. Threads may share it."""

    def __init__(self, services: Sequence[Service], ended: threading.Event) -> None:
        self._turns = cycle(services)
        self._ended = ended

    def ask(self, request: Callable[[Service], _T], *, troubles: list[str] | None = None, name: str = "") -> _T:
        """Send the request. Repeat it at the next api if one is down. Raises `HoraError`.

        A line about every other answer of 500 and above is added to `troubles`.
        """
        give_up_at = time.monotonic() + _RETRY_FOR_S
        while True:
            try:
                return request(next(self._turns))
            except HoraError as error:
                is_down = isinstance(error, ServiceUnavailable) or (
                    isinstance(error, ProblemError) and error.status >= 500
                )
                if not is_down or time.monotonic() > give_up_at or self._ended.wait(_PAUSE_S):
                    raise
                if troubles is not None and isinstance(error, ProblemError) and error.status != 503:
                    troubles.append(f"{name}: the api answered {error.status}: {error}")


class Person(threading.Thread):
    """Submits one job. `job_id` is set when the api has confirmed it. `troubles` has a line for each wrong answer."""

    def __init__(
        self, planned: PlannedJob, clients: Clients, stage: Stage, ended: threading.Event, *, seed: int
    ) -> None:
        super().__init__(name=planned.name, daemon=True)
        self.planned = planned
        self.job_id: str | None = None
        self.cancelled = False  # the api accepted the cancel
        self.stays_paused = False  # the api accepted the pause; nobody will resume the job
        self.troubles: list[str] = []
        self._clients = clients
        self._stage = stage
        self._key = f"chaos-{seed}-{planned.number}"
        self._ended = ended

    def run(self) -> None:
        """Submit the job in its time, then carry out the wish."""
        try:
            if self._wait_until(lambda: self._stage.may_continue(self.planned.at)):
                self._submit_job()
            if self.job_id is not None and self.planned.wish is not None:
                self._carry_out(self.planned.wish)
        except HoraError as error:
            self.troubles.append(f"{self.planned.name}: {type(error).__name__}: {error}")

    def _submit_job(self) -> None:
        self.job_id = self._retry(self._submit_once)["id"]
        if self.planned.submit_twice:
            second_id = self._retry(self._submit_once)["id"]
            if second_id != self.job_id:
                self.troubles.append(f"{self.planned.name}: one key gave two jobs, {self.job_id} and {second_id}")

    def _submit_once(self, service: Service) -> Json:
        return service.submit(self.planned.spec, idempotency_key=self._key)

    def _carry_out(self, wish: Wish) -> None:
        if not self._wait_until(lambda: self._has_come(wish.moment)) or self._ended.wait(wish.delay_s):
            return
        job_id = self.job_id or ""
        if wish.action == "cancel":
            self.cancelled = self._ask(lambda service: service.cancel(job_id))
        elif self._ask(lambda service: service.pause(job_id)):
            self.stays_paused = wish.resume_after_s is None
            if wish.resume_after_s is not None and not self._ended.wait(wish.resume_after_s):
                self._ask(lambda service: service.resume(job_id))

    def _ask(self, request: Callable[[Service], Json]) -> bool:
        """Send the request. False if the service refuses it because the job is over."""
        try:
            self._retry(request)
        except ProblemError as error:
            job = self._retry(lambda service: service.job(self.job_id or ""))
            if error.status != 409 or job["ended_at"] is None:
                raise
            return False
        return True

    def _retry(self, request: Callable[[Service], _T]) -> _T:
        return self._clients.ask(request, troubles=self.troubles, name=self.planned.name)

    def _has_come(self, moment: Moment) -> bool:
        row = self._stage.job(self.planned.name)
        return row is not None and row.status in _SINCE[moment]

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for the condition. False if the round ended first."""
        while not condition():
            if self._ended.wait(_POLL_S):
                return False
        return True
