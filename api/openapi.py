"""The OpenAPI document: what FastAPI knows, with the spec's schema and the problems that any route can answer with."""

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel

from api.problems import MEDIA_TYPE
from jobs.spec import Spec
from jobs.studies.shape import StudySpec
from jobs.views.service import ProblemView

_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def problems(**why: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these statuses, as in `problems(s404="no job has this id")`."""
    return {int(status[1:]): {"description": text, **_PROBLEM} for status, text in why.items()}


NO_SUCH_JOB = problems(s404="No such job")


def describe(app: FastAPI) -> None:
    """Let `app` answer /openapi.json with the whole document."""

    def document() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = _document(app)
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]


def _document(app: FastAPI) -> dict[str, Any]:
    document = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
    schemas = document["components"]["schemas"]
    for name, model in (("Spec", Spec), ("StudySpec", StudySpec), ("Problem", ProblemView)):
        _add(schemas, name, model)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["SpecChanges"] = {
        "title": "SpecChanges",
        "type": "object",
        "description": "Some fields of a Spec: objects are merged, every other value replaces the old one.",
    }
    return document


def _add(schemas: dict[str, Any], name: str, model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="validation")
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema
