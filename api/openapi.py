"""The OpenAPI document: what FastAPI knows, with the spec's schema and the problems that any route can answer with."""

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel

from api.callers import scope_of
from api.problems import MEDIA_TYPE
from jobs.model.descriptions import without_links
from jobs.model.spec import Spec
from jobs.views.data import NewDataset
from jobs.views.projects import ProjectChanges
from jobs.views.service import ProblemView
from jobs.views.studies import StudySpec

_PROBLEM = {"content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}}


def problems(**why: str) -> dict[int | str, dict[str, Any]]:
    """OpenAPI responses for these statuses, as in `problems(s404="no job has this id")`."""
    return {int(status[1:]): {"description": text, **_PROBLEM} for status, text in why.items()}


_HEADERS = {
    "ETag": "A weak tag of this answer, for `If-None-Match`",
    "Location": "Where to look it up",
    "Retry-After": "In how many seconds to ask again",
}
_TOLD_WITH = {"304": "ETag", "429": "Retry-After", "503": "Retry-After"}


def headers(*names: str) -> dict[str, Any]:
    """OpenAPI of these headers of an answer."""
    return {"headers": {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in names}}


CREATED: dict[int | str, dict[str, Any]] = {201: headers("Location", "ETag")}
# Before any of this: the server under it cannot read the request, and says so in plain text.
UNREADABLE: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "It is no HTTP, or its address is longer than 64 KB",
        "content": {"text/plain": {"schema": {"type": "string"}}},
    }
}
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
    for name, model in (
        ("Spec", Spec),
        ("StudySpec", StudySpec),
        ("ProjectChanges", ProjectChanges),
        ("NewDataset", NewDataset),
        ("Problem", ProblemView),
    ):
        _add(schemas, name, model)
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas["SpecChanges"] = {
        "title": "SpecChanges",
        "type": "object",
        "description": "Some fields of a Spec: objects are merged, every other value replaces the old one.",
    }
    _leave_parts_defaults_to_the_parts(schemas)
    _take_links_out(schemas)
    for methods in document["paths"].values():
        for operation in methods.values():
            _tell_headers(operation["responses"])
    _tell_scopes(document, app)
    return document


def _tell_headers(answers: dict[str, Any]) -> None:
    """Name the headers that every answer of a kind has."""
    for status in _TOLD_WITH.keys() & answers.keys():
        answers[status] |= headers(_TOLD_WITH[status])
    if "304" in answers:
        answers["200"].update(headers("ETag"))


def _tell_scopes(document: dict[str, Any], app: FastAPI) -> None:
    """Name the scope that a token needs: of a bearer's scheme the requirement lists roles."""
    for route in iter_route_contexts(app.routes):
        path = re.sub(r":[a-z]+}", "}", route.path or "")
        for method in route.methods or ():
            operation = document["paths"].get(path, {}).get(method.lower(), {})
            if "security" in operation:
                scope = scope_of(route.dependant, method)
                operation["security"] = [{name: [str(scope)] for name in one} for one in operation["security"]]


def _leave_parts_defaults_to_the_parts(schemas: dict[str, Any]) -> None:
    """Take away the default of each property that is an object with a schema of its own, where the defaults stand too.

    Generators of clients cannot make such a value, and leave the whole operation out.
    """
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            parts = [field, *field.get("anyOf", [])]
            if isinstance(field.get("default"), dict) and any("$ref" in part for part in parts):
                del field["default"]


def _take_links_out(schemas: dict[str, Any]) -> None:
    """Leave the text alone of links in the descriptions of fields: they lead to pages that the api does not serve."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if "description" in field:
                field["description"] = without_links(field["description"])


def _add(schemas: dict[str, Any], name: str, model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="validation")
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema | {"title": name}  # generators name their classes by it
