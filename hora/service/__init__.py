"""A Hora service over HTTP, with its own JSON. The command line uses it, and `hora.client` is made of it.

    with Service(url, token) as service:
        job = service.submit({"dataset": "digits", "batch_size": 64, "learning_rate": 0.001, "gpus": 2})
        job = service.wait(job["id"])

All answers are dicts, with the fields of a newer service too. Errors: see `hora.errors`.
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
from hora.service.articles import ArticleCalls
from hora.service.artifacts import ArtifactCalls
from hora.service.calls import ENDED
from hora.service.checkpoints import CheckpointCalls
from hora.service.code import CodeCalls
from hora.service.datasets import DatasetCalls
from hora.service.hosts import HostCalls
from hora.service.jobs import JobCalls
from hora.service.logs import LogCalls
from hora.service.people import PeopleCalls
from hora.service.projects import ProjectCalls
from hora.service.studies import StudyCalls
from hora.service.transport import Transport
from hora.service.usage import UsageCalls
from hora.service.views import ViewCalls
from hora.service.webhooks import WebhookCalls

__all__ = [
    "ENDED", "HoraError", "Json", "NotAuthorized", "NotFound", "ProblemError", "Service", "ServiceUnavailable",
    "WaitTimeout",
]  # fmt: skip


class Service(
    JobCalls, StudyCalls, HostCalls, DatasetCalls, PeopleCalls, ProjectCalls, LogCalls, ArtifactCalls, WebhookCalls,
    CheckpointCalls, CodeCalls, ViewCalls, ArticleCalls, UsageCalls,
):  # fmt: skip
    """A connection to one service. Close it, or use it as a context manager. Threads may share it.

    A request without an answer is sent again if that is safe: it only reads, or it carries an idempotency key. Every
    method raises `ServiceUnavailable` and `ProblemError`.
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
        """The state of the database, its schema and the broker. Raises `ProblemError` if the service is not ready."""
        return self._wire.document("GET", "/readyz", repeatable=False)

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
