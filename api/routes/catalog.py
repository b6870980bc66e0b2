"""What can be trained: the registered datasets and models."""

from api.deps import router
from api.views import Listed
from jobs.catalog import DATASETS, MODELS, Dataset, Model

routes = router("catalog")


@routes.get("/datasets")
async def list_datasets() -> Listed[Dataset]:
    """List the datasets that a spec can name."""
    return Listed(items=list(DATASETS.values()))


@routes.get("/models")
async def list_models() -> Listed[Model]:
    """List the models that a spec can name."""
    return Listed(items=list(MODELS.values()))
