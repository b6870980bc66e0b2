"""The people of a round: each submits one job. Some cancel their job, or pause it and resume it.

They use only the api, and repeat a request while it does not answer. What the api has confirmed must stay true.
"""

import threading
import time
from collections.abc import Callable
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


class Person(threading.Thread):
    """Submits one job. `job_id` is set when the api has confirmed it. `troubles` has a line for each wrong answer."""

    def __init__(self, planned: PlannedJob, client: Service, stage: Stage, *, seed: int) -> None:
        super().__init__(name=planned.name, daemon=True)
        self.planned = planned
        self.job_id: str | None = None
        self.cancelled = False  # the api accepted the cancel
        self.stays_paused = False  # the api accepted the pause; nobody will resume the job
        self.troubles: list[str] = []
        self._client = client
        self._stage = stage
        self._key = f"chaos-{seed}-{planned.number}"
        self._ended = threading.Event()

    def run(self) -> None:
        """Submit the job in its time, then carry out the wish."""
        try:
            if self._wait_until(lambda: self._stage.may_continue(self.planned.at)):
                self._submit_job()
            if self.job_id is not None and self.planned.wish is not None:
                self._carry_out(self.planned.wish)
        except HoraError as error:
            self.troubles.append(f"{self.planned.name}: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """Do nothing more."""
        self._ended.set()

    def _submit_job(self) -> None:
        self.job_id = self._retry(self._submit_once)["id"]
        if self.planned.submit_twice:
            second_id = self._retry(self._submit_once)["id"]
            if second_id != self.job_id:
                self.troubles.append(f"{self.planned.name}: one key gave two jobs, {self.job_id} and {second_id}")

    def _submit_once(self) -> Json:
        return self._client.submit(self.planned.spec, idempotency_key=self._key)

    def _carry_out(self, wish: Wish) -> None:
        if not self._wait_until(lambda: self._has_come(wish.moment)) or self._ended.wait(wish.delay_s):
            return
        job_id = self.job_id or ""
        if wish.action == "cancel":
            self.cancelled = self._ask(lambda: self._client.cancel(job_id))
        elif self._ask(lambda: self._client.pause(job_id)):
            self.stays_paused = wish.resume_after_s is None
            if wish.resume_after_s is not None and not self._ended.wait(wish.resume_after_s):
                self._ask(lambda: self._client.resume(job_id))

    def _ask(self, request: Callable[[], Json]) -> bool:
        """Send the request. False if the service refuses it because the job is over."""
        try:
            self._retry(request)
        except ProblemError as error:
            job = self._retry(lambda: self._client.job(self.job_id or ""))
            if error.status != 409 or job["ended_at"] is None:
                raise
            return False
        return True

    def _retry(self, request: Callable[[], _T]) -> _T:
        """Repeat the request while the service is down. Raises `HoraError`."""
        give_up_at = time.monotonic() + _RETRY_FOR_S
        while True:
            try:
                return request()
            except HoraError as error:
                is_down = isinstance(error, ServiceUnavailable) or (
                    isinstance(error, ProblemError) and error.status >= 500
                )
                if not is_down or time.monotonic() > give_up_at or self._ended.wait(_PAUSE_S):
                    raise
                if isinstance(error, ProblemError) and error.status != 503:
                    self.troubles.append(f"{self.planned.name}: the api answered {error.status}: {error}")

    def _has_come(self, moment: Moment) -> bool:
        row = self._stage.job(self.planned.name)
        return row is not None and row.status in _SINCE[moment]

    def _wait_until(self, condition: Callable[[], bool]) -> bool:
        """Wait for the condition. False if the round ended first."""
        while not condition():
            if self._ended.wait(_POLL_S):
                return False
        return True
