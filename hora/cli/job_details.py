"""All that the service knows of one job, fetched at once. Used by `hora show`."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from hora.service import Json, ProblemError, Service

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class Known:
    """A job with what belongs to it. `missing` says, a sentence each, what the service could not tell."""

    job: Json
    attempt: Json | None  # the newest one
    analysis: Json | None
    advice: list[Json]
    missing: list[str]


def all_about(client: Service, job_id: str) -> Known:
    """The job, its newest attempt, its analysis and its advice: four requests at the same time.

    A job is worth showing without the latter two: that they cannot be had is told, not raised.
    """
    missing: list[str] = []

    def if_possible(ask: Callable[[str], Answer], what: str) -> Answer | None:
        try:
            return ask(job_id)
        except ProblemError as error:
            missing.append(f"The {what} cannot be had: {error}")
            return None

    with ThreadPoolExecutor(max_workers=4) as pool:
        job = pool.submit(client.job, job_id)
        attempts = pool.submit(client.attempts, job_id)
        analysis = pool.submit(if_possible, client.analysis, "analysis")
        advice = pool.submit(if_possible, client.advice, "advice")
    told, tries = job.result(), attempts.result()
    return Known(told, tries[-1] if tries else None, analysis.result(), advice.result() or [], missing)
