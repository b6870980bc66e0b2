"""The OpenAPI document is valid and complete, and its operations keep their names."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from api.document import document
from api.problems import MEDIA_TYPE
from jobs import wording
from jobs.model.problems import _WORDS_BY_PATTERN
from tests.unit.api.operations import PINNED, operations, pinned

# These need no token, so they need not list 401, 403 and 429.
OPEN = {"/healthz", "/readyz", "/metrics", "/login"}


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return document()


def test_the_document_is_valid(openapi: dict[str, Any]) -> None:
    assert openapi["openapi"].startswith("3.1")
    assert [error.message for error in OpenAPIV31SpecValidator(openapi).iter_errors()] == []


def test_each_pattern_of_a_parameter_and_a_body_has_words(openapi: dict[str, Any]) -> None:
    """A path that does not match has another answer: there is no such thing."""
    in_words = _WORDS_BY_PATTERN | wording._WORDS_BY_PATTERN
    without = []
    for path, method, operation in operations(openapi):
        others = [one for one in operation.get("parameters", []) if one["in"] != "path" and one["name"] != "sort"]
        without += [(method, path, one) for one in _patterns(others) if one not in in_words]
    without += [("", "", one) for one in _patterns(openapi["components"]["schemas"]) if one not in in_words]
    assert without == []


def _patterns(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(pattern := schema.get("pattern"), str):
            yield pattern
        yield from schema.get("patternProperties", ())
        for part in schema.values():
            yield from _patterns(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from _patterns(part)


def test_operation_names_are_pinned(openapi: dict[str, Any]) -> None:
    """After an intended change, run `python -m tests.unit.api.operations`."""
    assert pinned(openapi) == PINNED.read_text()
    names = [operation["operationId"] for _, _, operation in operations(openapi)]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z]+(_[a-z0-9]+)*", name) for name in names)


def test_every_field_of_a_spec_and_a_study_is_described_without_links(openapi: dict[str, Any]) -> None:
    schemas = openapi["components"]["schemas"]
    for name in ("Spec", "DatasetSpec", "ModelSpec", "EarlyStopping", "CheckpointSpec", "ProbeSpec", "StudySpec"):
        fields = schemas[name]["properties"]
        assert [field for field, schema in fields.items() if not schema.get("description", "").endswith(".")] == []
    every_field = [field for schema in schemas.values() for field in schema.get("properties", {}).values()]
    assert [field["description"] for field in every_field if "](" in field.get("description", "")] == []


def test_every_request_body_has_an_example(openapi: dict[str, Any], subtests: pytest.Subtests) -> None:
    for method, path, operation in operations(openapi):
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            if media_type == "application/octet-stream":
                continue
            with subtests.test(operation=f"{method} {path}", media_type=media_type):
                name = content["schema"].get("$ref", "").rpartition("/")[2]
                schema = openapi["components"]["schemas"].get(name, content["schema"])
                refs = [one["$ref"].rpartition("/")[2] for one in schema.get("anyOf", ()) if "$ref" in one]
                schemas = [schema, *(openapi["components"]["schemas"][ref] for ref in refs)]
                assert content.get("examples") or content.get("example") or any(one.get("examples") for one in schemas)


def test_document_states_the_scope_that_an_operation_needs(openapi: dict[str, Any]) -> None:
    scopes = {operation["operationId"]: operation.get("security") for _, _, operation in operations(openapi)}
    assert scopes["get_job"] == [{"HTTPBearer": ["read"]}]
    assert scopes["submit_job"] == [{"HTTPBearer": ["submit"]}]
    assert scopes["forget_host"] == [{"HTTPBearer": ["admin"]}]
    assert scopes["get_health"] is None
    assert {name for name, needed in scopes.items() if needed is None} == {
        operation["operationId"] for _, path, operation in operations(openapi) if path in OPEN
    }


def test_every_operation_is_described_with_its_errors_and_headers(
    openapi: dict[str, Any], subtests: pytest.Subtests
) -> None:
    for method, path, operation in operations(openapi):
        with subtests.test(operation=f"{method} {path}"):
            assert operation["summary"]
            assert operation["description"].endswith((".", "`"))
            assert len(operation["tags"]) == 1
            assert [of["name"] for of in operation.get("parameters", ()) if not of.get("description")] == []
            answers = operation["responses"]
            assert all(answer["description"] for answer in answers.values())
            errors = {status: answer for status, answer in answers.items() if status[0] in "45"}
            assert list(errors.pop("400")["content"]) == ["text/plain"]  # from the server, before the app runs
            for answer in errors.values():
                assert answer["content"] == {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}}
            needed = {"422", "503"} | ({"401", "403", "429"} if path not in OPEN else set())
            assert needed | ({"404"} if "{" in path else set()) <= errors.keys()
            if "304" in answers:
                assert method == "GET"
                assert all("ETag" in answers[status]["headers"] for status in ("200", "304"))
                assert "If-None-Match" in {of["name"] for of in operation["parameters"]}
            if answers.keys() >= {"200", "201"}:  # an operation with a dry run
                assert answers["201"]["headers"].keys() >= {"Location", "ETag"}
            for status in {"429", "503"} & answers.keys():
                assert "Retry-After" in answers[status]["headers"]
