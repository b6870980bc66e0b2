"""The Python client, with types. Its answers are the models that the service itself uses.

    with Client() as client:
        job = client.jobs.submit(dataset="digits", gpus=2, epochs=5)
        job.wait(check=True)
        print(job.summary.val_accuracy)

It is built on `hora.service`, which sends the requests. Errors: see `hora.errors`.
"""

from types import TracebackType
from typing import Self

import httpx2 as httpx

from hora.client.articles import Articles
from hora.client.code import Code
from hora.client.datasets import Datasets
from hora.client.hosts import Hosts
from hora.client.job import Job
from hora.client.jobs import Jobs
from hora.client.lists import Items, Pages
from hora.client.models import Models
from hora.client.projects import Projects
from hora.client.series import Metrics
from hora.client.studies import Studies, Study
from hora.client.tokens import Tokens
from hora.client.views import Views
from hora.client.webhooks import Webhooks
from hora.connection import find_target
from hora.errors import HoraError
from hora.service import Service

__all__ = ["Client", "Items", "Job", "Metrics", "Pages", "Study"]


class Client:
    """A connection to one service. Close it, or use it as a context manager; it may be shared by threads.

    Without `url` it uses the same service as the command line: that of `HORA_URL` and `HORA_TOKEN`, else that of the
    configuration file, else the stack on this machine. Every call raises `ServiceUnavailable` if there is no answer
    within `timeout_s`, and a `ProblemError` if the service refuses. A request that is safe to repeat is repeated. A
    submission carries a key by which the service recognizes it, so it is never carried out twice.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout_s: float = 30.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        if url is None:
            if token is not None:
                raise HoraError("A token is meant for one service: give its url as well.")
            found = find_target()
            url, token = found.url, found.token
        self._service = Service(url, token, timeout_s=timeout_s, transport=transport)
        self.url = self._service.url
        self.jobs = Jobs(self._service)
        self.studies = Studies(self._service)
        self.code = Code(self._service)
        self.hosts = Hosts(self._service)
        self.datasets = Datasets(self._service)
        self.models = Models(self._service)
        self.projects = Projects(self._service)
        self.tokens = Tokens(self._service)
        self.views = Views(self._service)
        self.webhooks = Webhooks(self._service)
        self.articles = Articles(self._service)

    def is_ready(self) -> bool:
        """Whether the service answers and can serve requests. Raises only `ServiceUnavailable`."""
        return self._service.is_ready()

    def close(self) -> None:
        """Close the connections."""
        self._service.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
