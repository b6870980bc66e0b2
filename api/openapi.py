"""The OpenAPI document: FastAPI's own, with raw bodies, headers, scopes and problems. Used by `api.main`."""

import re
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from fastapi.routing import iter_route_contexts
from pydantic import BaseModel

from api.callers import scope_of
from api.problems import MEDIA_TYPE
from jobs.model.descriptions import without_links
from jobs.model.job_changes import JobChanges
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
    "Location": "The address of what was created",
    "Retry-After": "Seconds to wait before the next request",
}
_HEADER_OF_STATUS = {"304": "ETag", "429": "Retry-After", "503": "Retry-After"}


def headers(*names: str) -> dict[str, Any]:
    """OpenAPI of these headers of an answer."""
    return {"headers": {name: {"description": _HEADERS[name], "schema": {"type": "string"}} for name in names}}


CREATED: dict[int | str, dict[str, Any]] = {201: headers("Location", "ETag")}
# The server itself gives this answer, in plain text, when it cannot read a request. No route sees the request.
UNREADABLE: dict[int | str, dict[str, Any]] = {
    400: {
        "description": "The request is not valid HTTP, or its address is longer than 64 KB",
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
        ("JobChanges", JobChanges),
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
    _remove_defaults_of_objects(schemas)
    _take_links_out(schemas)
    for methods in document["paths"].values():
        for operation in methods.values():
            _add_headers(operation["responses"])
    _add_scopes(document, app)
    return document


def _add_headers(answers: dict[str, Any]) -> None:
    """Add the headers that every answer with a status has."""
    for status in _HEADER_OF_STATUS.keys() & answers.keys():
        answers[status] |= headers(_HEADER_OF_STATUS[status])
    if "304" in answers:
        answers["200"].update(headers("ETag"))


def _add_scopes(document: dict[str, Any], app: FastAPI) -> None:
    """Add the scope that a token needs. For a bearer scheme, OpenAPI lists it as a role."""
    for route in iter_route_contexts(app.routes):
        path = re.sub(r":[a-z]+}", "}", route.path or "")
        for method in route.methods or ():
            operation = document["paths"].get(path, {}).get(method.lower(), {})
            if "security" in operation:
                scope = scope_of(route.dependant, method)
                operation["security"] = [
                    {scheme: [str(scope)] for scheme in requirement} for requirement in operation["security"]
                ]


def _remove_defaults_of_objects(schemas: dict[str, Any]) -> None:
    """Remove the default of each property that is an object. The object's own schema has the defaults of its fields.

    Generators of clients cannot handle such a default and leave the whole operation out.
    """
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            parts = [field, *field.get("anyOf", [])]
            if isinstance(field.get("default"), dict) and any("$ref" in part for part in parts):
                del field["default"]


def _take_links_out(schemas: dict[str, Any]) -> None:
    """Replace each link in the description of a field by its text: it leads to a page that the api does not serve."""
    for schema in schemas.values():
        for field in schema.get("properties", {}).values():
            if "description" in field:
                field["description"] = without_links(field["description"])


def _add(schemas: dict[str, Any], name: str, model: type[BaseModel]) -> None:
    schema = model.model_json_schema(ref_template="#/components/schemas/{model}", mode="validation")
    schemas.update(schema.pop("$defs", {}))
    schemas[name] = schema | {"title": name}  # generators name their classes after it
