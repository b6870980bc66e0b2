"""The models that can be trained."""

from fastapi import Response

from api.callers import router
from api.deps import Cursor, IfNoneMatch, PageLimit, ServicesHere
from api.polling.entity_tags import UNCHANGED, answer_or_304
from jobs.db.cursors import part_of
from jobs.model.catalog import MODELS, Model
from jobs.views.base import Listed

routes = router("catalog")


@routes.get("/models", response_model=Listed[Model], responses=UNCHANGED)
def list_models(
    services: ServicesHere, limit: PageLimit = 500, cursor: Cursor = None, if_none_match: IfNoneMatch = None
) -> Response:
    """List the models that a spec can name, sorted by name."""
    external = [
        Model(name=name, description="A function of an installed package that the operator allows", tables=True)
        for name in services.site.models
    ]
    models = [*MODELS.values(), *external]
    with services.sessions() as session:
        page = part_of(session, models, limit=limit, cursor=cursor, of="models", key=lambda model: model.name)
    return answer_or_304(Listed[Model].model_validate(page), if_none_match)
