"""Count jobs."""

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import ServicesHere
from api.routes.lookups import Filter
from jobs.lifecycle.listing import MOST_COUNTED, count_jobs
from jobs.views.jobs import JobCount

routes = router("jobs")


@routes.get("/jobs/count", dependencies=[TAKES_A_TURN])
def count_all_jobs(services: ServicesHere, jobs: Filter) -> JobCount:
    """Count the jobs that the list would have, up to 100,000. All filters of the list apply."""
    with services.sessions() as session:
        count = count_jobs(session, jobs)
    return JobCount(jobs=min(count, MOST_COUNTED), more=count > MOST_COUNTED)
