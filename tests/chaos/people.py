"""The people of a round: each submits a job, and may wish to cancel it, or to pause it and let it go on.

They speak to the api alone, and ask again for as long as it does not answer: what was answered must hold.
"""

import threading
import time
from collections.abc import Callable
from typing import TypeVar

from hora.service import HoraError, Json, ProblemError, Service, ServiceUnavailable
from tests.chaos.script import Moment, PlannedJob, Wish
from tests.chaos.stage import Stage

_ASKS_FOR_S = 60.0  # so long may the service be away
_PAUSE_S = 0.3
_POLL_S = 0.1
_SINCE = {  # the statuses in which a moment has come, or has passed
    Moment.QUEUED: frozenset({"queued", "launching", "running", "succeeded", "failed", "cancelled"}),
    Moment.LAUNCHING: frozenset({"launching", "running", "succeeded", "failed", "cancelled"}),
    Moment.RUNNING: frozenset({"running", "succeeded", "failed", "cancelled"}),
}
_T = TypeVar("_T")


class Person(threading.Thread):
    """Sees to one job. `job_id` is set once its submission was answered; `troubles` has what should not have been."""

    def __init__(self, planned: PlannedJob, client: Service, stage: Stage, *, seed: int) -> None:
        super().__init__(name=planned.name, daemon=True)
        self.planned = planned
        self.job_id: str | None = None
        self.cancelled = False  # the cancel was answered with yes
        self.stays_paused = False  # so was the pause, and nobody lets the job go on
        self.troubles: list[str] = []
        self._client = client
        self._stage = stage
        self._key = f"chaos-{seed}-{planned.number}"
        self._ended = threading.Event()

    def run(self) -> None:
        """Submit when the time has come; then the wish."""
        try:
            if self._waits_until(lambda: self._stage.lets_through(self.planned.at)):
                self._submits()
            if self.job_id is not None and self.planned.wish is not None:
                self._has(self.planned.wish)
        except HoraError as error:
            self.troubles.append(f"{self.planned.name}: {type(error).__name__}: {error}")

    def stop(self) -> None:
        """Do nothing more."""
        self._ended.set()

    def _submits(self) -> None:
        self.job_id = self._insists(self._submit)["id"]
        if self.planned.again:
            again = self._insists(self._submit)["id"]
            if again != self.job_id:
                self.troubles.append(f"{self.planned.name}: one key gave two jobs, {self.job_id} and {again}")

    def _submit(self) -> Json:
        return self._client.submit(self.planned.spec, idempotency_key=self._key)

    def _has(self, wish: Wish) -> None:
        if not self._waits_until(lambda: self._has_come(wish.moment)) or self._ended.wait(wish.delay_s):
            return
        job_id = self.job_id or ""
        if wish.action == "cancel":
            self.cancelled = self._asks(lambda: self._client.cancel(job_id))
        elif self._asks(lambda: self._client.pause(job_id)):
            self.stays_paused = wish.resume_after_s is None
            if wish.resume_after_s is not None and not self._ended.wait(wish.resume_after_s):
                self._asks(lambda: self._client.resume(job_id))

    def _asks(self, request: Callable[[], Json]) -> bool:
        """Whether the service says yes; it says no where the job is over."""
        try:
            self._insists(request)
        except ProblemError as error:
            job = self._insists(lambda: self._client.job(self.job_id or ""))
            if error.status != 409 or job["ended_at"] is None:
                raise
            return False
        return True

    def _insists(self, request: Callable[[], _T]) -> _T:
        give_up_at = time.monotonic() + _ASKS_FOR_S
        while True:
            try:
                return request()
            except HoraError as error:
                away = isinstance(error, ServiceUnavailable) or (
                    isinstance(error, ProblemError) and error.status >= 500
                )
                if not away or time.monotonic() > give_up_at or self._ended.wait(_PAUSE_S):
                    raise
                if isinstance(error, ProblemError) and error.status != 503:
                    self.troubles.append(f"{self.planned.name}: the api answered {error.status}: {error}")

    def _has_come(self, moment: Moment) -> bool:
        row = self._stage.job(self.planned.name)
        return row is not None and row.status in _SINCE[moment]

    def _waits_until(self, condition: Callable[[], bool]) -> bool:
        """False where the round ended before."""
        while not condition():
            if self._ended.wait(_POLL_S):
                return False
        return True
