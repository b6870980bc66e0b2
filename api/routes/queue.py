"""The queue: which job is next, why each waits, and whose turn it is. Everybody can read it."""

from typing import Annotated

from fastapi import Query, Response

from api.callers import router
from api.costs import TAKES_A_TURN
from api.deps import Cursor, IfNoneMatch, PageLimit, SafeText, ServicesHere
from api.polling.entity_tags import UNCHANGED, answer_or_304
from jobs.scheduling.queue_listing import queue_listing
from jobs.views.queue import QueueView

routes = router("queue")

Project = Annotated[SafeText | None, Query(description="Jobs and accounts of this project")]
Owner = Annotated[SafeText | None, Query(description="Jobs and accounts of this user")]


@routes.get("/queue", response_model=QueueView, responses=UNCHANGED, dependencies=[TAKES_A_TURN])
def get_queue(
    services: ServicesHere,
    project: Project = None,
    owner: Owner = None,
    limit: PageLimit = 50,
    cursor: Cursor = None,
    if_none_match: IfNoneMatch = None,
) -> Response:
    """List the jobs that wait for slots in the sequence of the queue, page by page, and the accounts by their turns.

    A page begins behind the last job of the previous one, where that job is now. With `If-None-Match` an unchanged
    page gets 304.
    """
    with services.sessions() as session:
        view = queue_listing(
            session, host_timeout_s=services.settings.host_timeout_s, limit=limit, cursor=cursor, project=project,
            owner=owner, policy=services.settings.queue,
        )  # fmt: skip
    return answer_or_304(view, if_none_match)
