"""The analysis of a job: why it is slow, what its time was spent on, whether it learns."""

from fastapi import Response

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import IfNoneMatch, JobId, ServicesHere
from api.openapi import NO_SUCH_JOB
from api.polling.entity_tags import UNCHANGED, answer_or_304
from jobs.db.engine import limit_statements
from jobs.insight.advice.batch import judged
from jobs.insight.advice.gathering import evidence_on
from jobs.insight.analysis.analyse import analysis_of
from jobs.lifecycle.store import get_job
from jobs.views.analysis import Analysis, FindingKind

routes = router("analysis")

ANALYSIS_LIMIT_S = 10.0  # the analysis of millions of steps takes about one second


@routes.get(
    "/jobs/{job_id}/analysis", response_model=Analysis, responses=UNCHANGED | NO_SUCH_JOB, dependencies=[TAKES_A_TURN]
)
def get_analysis(job_id: JobId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Get the findings of a job with their figures, and the ledger of its leased seconds.

    docs/telemetry.md defines each figure. For a running job, the analysis covers the time up to now.
    """
    with services.sessions.begin() as session:
        limit_statements(session, ANALYSIS_LIMIT_S)
        job = get_job(session, job_id)
        analysis = analysis_of(session, job)
        if any(one.kind is FindingKind.COMPUTE_BOUND for one in analysis.findings):
            analysis = judged(evidence_on(session, job, analysis, services.site))
    return answer_or_304(analysis, if_none_match)
