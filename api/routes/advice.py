"""Advice for a job: what to change next time, best first."""

from fastapi import Response

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import IfNoneMatch, JobId, ServicesHere
from api.openapi import NO_SUCH_JOB
from api.polling.entity_tags import UNCHANGED, answer_or_304
from api.routes.analysis import ANALYSIS_LIMIT_S
from jobs.db.engine import limit_statements
from jobs.insight.advice.gathering import evidence_on
from jobs.insight.advice.rules import advice_on
from jobs.insight.analysis.analyse import analysis_of
from jobs.lifecycle.store import get_job
from jobs.views.advice import Advice
from jobs.views.base import Listed

routes = router("advice")


@routes.get(
    "/jobs/{job_id}/advice",
    response_model=Listed[Advice],
    responses=UNCHANGED | NO_SUCH_JOB,
    dependencies=[TAKES_A_TURN],
)
def get_advice(job_id: JobId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get advice for a job: what to change next time, why, and what it is expected to gain.

    The `change` of an item is a body for `POST /v1/jobs/{id}/clone`. An empty list means that no change
    is worthwhile, or that too little is known. docs/advice.md says what each item is based on.
    """
    with services.sessions.begin() as session:  # the analysis of a job that has ended is stored
        limit_statements(session, ANALYSIS_LIMIT_S)
        job = get_job(session, job_id)
        evidence = evidence_on(session, job, analysis_of(session, job), services.site)
    return answer_or_304(Listed[Advice](items=advice_on(evidence)), if_none_match)
