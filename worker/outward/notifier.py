"""The notifier: a thread of every worker that notes the ends of studies and sends what waits for webhooks.

Any number of workers do this in parallel. A delivery is claimed for the longest time that sending may take, sent
outside of every transaction, and then settled. One process sends a webhook one message at a time, so a receiver that
does not answer blocks one sender and not all of them.
"""

import logging
import queue
import random
import threading
import time
from collections.abc import Callable, Sequence

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.outward.webhooks import outbox
from jobs.outward.webhooks.formats import MAIL, body_in, read_in
from jobs.outward.webhooks.messages import headers_of
from jobs.outward.webhooks.outbox import Claimed
from jobs.outward.webhooks.retries import Answer, Verdict
from jobs.runtime.settings import Settings
from jobs.scheduling.hosts import LOOKS_A_PERIOD, shared_period_s
from worker.outward.http import Outbound
from worker.outward.mail import Mailer
from worker.periodic import PeriodicThread, Watched

_log = logging.getLogger(__name__)

_SENDERS = 8
_LEASE_S = 120.0  # longer than an exchange takes, with the name's resolution
_LOOKS_A_PERIOD_FOR_STUDIES = 4  # by all hosts together: many jobs are looked at
_STUDIES_LOCK = 0x73747564696573  # "studies": an advisory lock's number


class Notifier(PeriodicThread):
    """Looks for due deliveries once a period, less often if there are many hosts."""

    def __init__(
        self,
        sessions: Sessions,
        settings: Settings,
        *,
        outbound: Outbound | None = None,
        mailer: Mailer | None = None,
        clock: Callable[[], float] = time.time,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        super().__init__("notifier", period_s=settings.notify_period_s, rests_first=False)
        self._sessions = sessions
        self._settings = settings
        self._turn_s = settings.notify_period_s
        self._base_url = (settings.public_url or "").rstrip("/")
        self._outbound = outbound or Outbound(settings.webhooks_allowed)
        self._mailer = mailer or Mailer(settings.mail_rules)
        self._clock = clock
        self._jitter = jitter
        self._busy: set[str] = set()  # webhooks to which a sender is sending; used only by this thread
        self._sent_to: queue.SimpleQueue[str] = queue.SimpleQueue()  # webhooks that have become free, by the senders

    def watched(self) -> Sequence[Watched]:
        """Deliveries that are due, and studies that have ended."""
        return [
            Watched(outbox.some_are_due(), self.found, LOOKS_A_PERIOD),
            Watched(outbox.studies_have_ended(), self.found, _LOOKS_A_PERIOD_FOR_STUDIES),
        ]

    def pause_s(self) -> float:
        """A period; longer if there are many hosts. A sender that becomes free wakes the thread earlier."""
        return self._turn_s

    def once(self) -> None:
        """Send what is due.

        After a stop nothing more is started. The result of a delivery that is being sent is stored if the process lives
        long enough. Otherwise it is sent again.
        """
        while not self._sent_to.empty():
            self._busy.discard(self._sent_to.get())
        self.send_due()

    def send_due(self) -> None:
        """Note which studies have ended, and start to send what is due, while senders are free."""
        config = self._settings
        with self._sessions.begin() as session:
            self._turn_s = shared_period_s(session, config.notify_period_s, host_timeout_s=config.host_timeout_s)
            if session.scalar(select(func.pg_try_advisory_xact_lock(_STUDIES_LOCK))):
                outbox.end_studies(session)
        while len(self._busy) < _SENDERS:
            with self._sessions.begin() as session:
                claimed = outbox.claim(
                    session,
                    lease_s=_LEASE_S,
                    besides=self._busy,
                    base_url=self._base_url,
                    mails_per_hour=config.mails_per_hour,
                )
            if claimed is None:
                return
            self._busy.add(claimed.webhook_id)
            threading.Thread(target=self._deliver, args=(claimed,), name="sender", daemon=True).start()

    def _deliver(self, delivery: Claimed) -> None:
        try:
            self.deliver(delivery)
        except OperationalError as error:
            _log.warning("the result of delivery %d could not be stored, it is sent again: %s", delivery.id, error.orig)
        except Exception:
            _log.exception("the result of delivery %d could not be stored; it is sent again", delivery.id)
        finally:
            self._sent_to.put(delivery.webhook_id)
            self.wake()

    def deliver(self, delivery: Claimed) -> Verdict | None:
        """Send a delivery and store the result."""
        is_mail = delivery.format == MAIL
        answer = self._mailer.send(delivery.url, delivery.payload) if is_mail else self._post(delivery)
        with self._sessions.begin() as session:
            verdict = outbox.settle(session, delivery, answer, jitter=self._jitter())
        if verdict in (Verdict.FAILED, Verdict.GONE):
            _log.warning("delivery %d to webhook %s failed: %s", delivery.id, delivery.webhook_id, answer.error)
        return verdict

    def _post(self, delivery: Claimed) -> Answer:
        body, now = body_in(delivery.format, delivery.payload), int(self._clock())
        headers = headers_of(delivery.id, delivery.event, delivery.secret, now, body)
        return read_in(delivery.format, self._outbound.post(delivery.url, headers, body))
