"""A job with its attempts, its analysis and its advice, fetched together. Used by `hora show`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeVar

from hora.service import Json, ProblemError, Service

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class JobDetails:
    """A job with what belongs to it. `missing` has a sentence for each part that the service could not give."""

    job: Json
    attempts: list[Json]  # oldest first
    hosts: list[Json]  # of the newest attempt, as they are now
    analysis: Json | None
    advice: list[Json]
    missing: list[str]

    @property
    def attempt(self) -> Json | None:
        """The newest attempt."""
        return self.attempts[-1] if self.attempts else None


def fetch_details(client: Service, job_id: str) -> JobDetails:
    """The job, its attempts, its analysis and its advice: four requests at the same time.

    Errors of the analysis and the advice are noted and not raised: a job without them is still worth showing.
    """
    missing: list[str] = []

    def if_possible(request: Callable[[str], Answer], part: str) -> Answer | None:
        try:
            return request(job_id)
        except ProblemError as error:
            missing.append(f"The {part} is not available: {error}")
            return None

    with ThreadPoolExecutor(max_workers=4) as pool:
        job = pool.submit(client.job, job_id)
        attempts = pool.submit(client.attempts, job_id)
        analysis = pool.submit(if_possible, client.analysis, "analysis")
        advice = pool.submit(if_possible, client.advice, "advice")
    hosts = hosts_of(client, attempts.result()[-1] if attempts.result() else None)
    return JobDetails(job.result(), attempts.result(), hosts, analysis.result(), advice.result() or [], missing)


def hosts_of(client: Service, attempt: Json | None) -> list[Json]:
    """The hosts of an attempt as they are now. One that is no longer there is left out."""
    hosts = []
    for share in (attempt or {}).get("shares") or []:
        with suppress(ProblemError):
            hosts.append(client.host(share["host"]))
    return hosts
