"""What a job's steps and samples say: why it is slow, where its time went, whether it learns."""

from fastapi import Response

from api.callers import router
from api.deps import IfNoneMatch, JobId, ServicesHere
from api.openapi import NO_SUCH_JOB
from api.polling.entity_tags import UNCHANGED, answer_once
from jobs.db.engine import limit_statements
from jobs.insight.analysis.analyse import analysis_of
from jobs.lifecycle.store import get_job
from jobs.views.analysis import Analysis

routes = router("analysis")

PATIENCE_S = 10.0  # a job of millions of steps takes a second


@routes.get("/jobs/{job_id}/analysis", response_model=Analysis, responses=UNCHANGED | NO_SUCH_JOB)
def get_analysis(job_id: JobId, services: ServicesHere, if_none_match: IfNoneMatch = None) -> Response:
    """Read what a job is named for, each with the figures it rests on, and the ledger of its leased seconds.

    docs/telemetry.md defines each figure. Of a job that runs it is what is known by now.
    """
    with services.sessions.begin() as session:
        limit_statements(session, PATIENCE_S)
        found = analysis_of(session, get_job(session, job_id))
    return answer_once(found, if_none_match)
