"""A Hora service over HTTP, as its own JSON: what the command line stands on, and `hora.client` puts types to.

    with Service(url, token) as service:
        job = service.submit({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2})
        job = service.wait(job["id"])

Jobs, studies and all other answers are dicts, with whatever a newer service has more. Errors: see `hora.errors`.
"""

from datetime import datetime
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import httpx2 as httpx

from hora.errors import (
    HoraError,
    Json,
    NotAuthorized,
    NotFound,
    ProblemError,
    ServiceUnavailable,
    WaitTimeout,
)
from hora.service.artifacts import ArtifactCalls
from hora.service.calls import ENDED
from hora.service.datasets import DatasetCalls
from hora.service.hosts import HostCalls
from hora.service.jobs import JobCalls
from hora.service.live import LiveCalls
from hora.service.people import PeopleCalls
from hora.service.projects import ProjectCalls
from hora.service.studies import StudyCalls
from hora.service.transport import Transport
from hora.service.webhooks import WebhookCalls

__all__ = [
    "ENDED", "HoraError", "Json", "NotAuthorized", "NotFound", "ProblemError", "Service", "ServiceUnavailable",
    "WaitTimeout",
]  # fmt: skip


class Service(
    JobCalls, StudyCalls, HostCalls, DatasetCalls, PeopleCalls, ProjectCalls, LiveCalls, ArtifactCalls, WebhookCalls
):  # fmt: skip
    """A connection to one service. Close it, or use it as a context manager; it may be shared by threads.

    A request that got no answer is sent again when that is safe: it only reads, or it carries a key by which
    the service knows it again. Every method raises `ServiceUnavailable` and `ProblemError`.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._wire = Transport(url, token, timeout_s, transport)
        self.url = self._wire.url

    def is_ready(self) -> bool:
        """Whether the service answers and can serve requests. Raises only `ServiceUnavailable`."""
        try:
            self.readiness()
        except ProblemError:
            return False
        return True

    def readiness(self) -> Json:
        """How the service's database, its schema and the broker are; a `ProblemError` where it is not ready."""
        return self._wire.document("GET", "/readyz", again=False)

    def clock(self) -> datetime:
        """The service's time, to the second."""
        return parsedate_to_datetime(self._wire.send("GET", "/healthz").headers["Date"])

    def close(self) -> None:
        """Close the connections."""
        self._wire.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
