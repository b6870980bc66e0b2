"""What can be trained: the registered datasets and models."""

from api.access import router
from api.deps import ServicesHere
from jobs.catalog import DATASETS, MODELS, Dataset, Model
from jobs.views.base import Listed

routes = router("catalog")


@routes.get("/datasets")
async def list_datasets() -> Listed[Dataset]:
    """List the datasets that a spec can name."""
    return Listed(items=list(DATASETS.values()))


@routes.get("/models")
async def list_models(services: ServicesHere) -> Listed[Model]:
    """List the models that a spec can name."""
    external = [
        Model(name=name, description="A function of an installed package, allowed by the operator", tables=True)
        for name in services.site.models
    ]
    return Listed(items=[*MODELS.values(), *external])
