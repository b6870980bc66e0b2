"""No answer about a wrong parameter or field has words of pydantic: they are about Python, and in another style."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.document import document
from tests.unit.api.operations import operations

_PYDANTIC = re.compile(
    r"\b(Input|String|Value|List|Dictionary|Tuple|Set|Object|Data|Number|Bytes) should|Value error|Field required"
    r"|Extra inputs|[Uu]nable to (parse|extract)|valid (integer|number|string|boolean|list|dictionary|tuple)"
)
_TEXTS = ("x", "-1", "1.5", "9" * 30, "9" * 5000, "", "x" * 5000, "\0", "\x01", "2026-01-01", "2026-01-01T00:00:00")
_VALUES: tuple[Any, ...] = ("x", "", "x" * 30_000, 1.5, -1, 1e300, True, [], {}, ["a"] * 3000)


@pytest.fixture(scope="module")
def openapi() -> dict[str, Any]:
    return document()


def test_wrong_parameters_are_answered_in_words_of_hora(api: TestClient, openapi: dict[str, Any]) -> None:
    found = []
    for method, path, operation in operations(openapi):
        if "text/event-stream" in operation["responses"].get("200", {}).get("content", {}):
            continue  # what it accepts has no end
        names = [parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "query"]
        for some, text in product(_parts(names, 10), _TEXTS):  # a longer address is refused
            answer = api.request(method, _filled(path), params=dict.fromkeys(some, text))
            found += [(method, path, text[:20], one) for one in _messages(answer)]
    assert [one for one in found if _PYDANTIC.search(one[-1])] == []
    assert len({message for *_, message in found}) > 20


def test_wrong_bodies_are_answered_in_words_of_hora(api: TestClient, openapi: dict[str, Any]) -> None:
    found = []
    for method, path, operation in operations(openapi):
        schema = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
        if schema is None:
            continue
        for body in ([], "x", 1, None, {}, *_wrong(_resolved(schema, openapi), openapi)):
            answer = api.request(method, _filled(path), json=body)
            found += [(method, path, str(body)[:60], one) for one in _messages(answer)]
        answer = api.request(method, _filled(path), content="{", headers={"Content-Type": "application/json"})
        found += [(method, path, "{", one) for one in _messages(answer)]
    assert [one for one in found if _PYDANTIC.search(one[-1])] == []
    assert len({message for *_, message in found}) > 20


def _parts(names: Sequence[str], most: int) -> list[Sequence[str]]:
    return [names[start : start + most] for start in range(0, len(names), most)]


def _filled(path: str) -> str:
    return re.sub(r"\{[^}]*\}", "1", path)


def _messages(answer: Any) -> list[str]:
    return [error["message"] for error in answer.json().get("errors", [])] if answer.status_code == 422 else []


def _resolved(schema: Mapping[str, Any], openapi: Mapping[str, Any]) -> Mapping[str, Any]:
    name = schema.get("$ref", "").rpartition("/")[2]
    return openapi["components"]["schemas"][name] if name else schema


def _wrong(schema: Mapping[str, Any], openapi: Mapping[str, Any], depth: int = 0) -> Iterator[dict[str, Any]]:
    """Objects whose fields are probably wrong, a few in each, also objects with such objects as their fields."""
    for branch in (schema, *schema.get("anyOf", ()), *schema.get("oneOf", ())):
        fields = _resolved(branch, openapi).get("properties", {})
        for names, value in product(_parts([*fields], 20), _VALUES):  # an answer names 50 errors
            yield dict.fromkeys(names, value)
        for name, field in fields.items() if depth == 0 else ():
            for kind in (field, *field.get("anyOf", ())):
                yield from ({name: inner} for inner in _wrong(_resolved(kind, openapi), openapi, depth + 1))
    yield {"no such field": 1}
