"""The fuzz has texts for every syntax of the OpenAPI document. A new syntax without texts fails here, by its name."""

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest

from api.document import document as openapi_document
from tests.fuzz.texts import DECISIVE, HEADERS, TEXTS, remember

_JSON_SCHEMAS_OWN = {"date-time", "binary"}
# Patterns that allow any text on one line. A text with a narrower pattern is made from it.
_FREE = {None, "^[^\\x00-\\x1f\\x7f-\\x9f]*$", "^[^\\x00-\\x1f\\x7f-\\x9f]+$"}
# Texts that are stored, compared or searched as they are: nothing reads a syntax in them.
_PLAIN = {
    "query": {"action", "actor", "name", "owner", "project", "search", "subject", "user"},
    "NewDataset": {"description", "label", "text"},
    "DatasetSpec": {"label", "text"},
    "NewProject": {"description"},
    "ProjectChanges": {"description"},
    "JobChanges": {"name", "notes"},
    "NewArticle": {"title"},
    "ArticleChanges": {"title"},
    "NewToken": {"name"},
    "NewWebhook": {"project"},
    "JobsFilter": {"name", "owner", "project", "search"},
    "ViewContent": {"columns", "heat", "metric", "pinned"},  # the page reads them, and leaves out what it cannot
    "NewViewOfJobs": {"name"},
    "ViewOfJobsChanges": {"name"},
    "NoteText": {"text"},
    "Spec": {"name"},
    "StudySpec": {"name", "note"},
}


CURSOR = "AAECAwQFBgcICQoLDA0ODxAR"


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return openapi_document()


def strings(schema: Any) -> Iterator[dict[str, Any]]:
    """The schemas of the texts in a schema, not those of the components to which it refers."""
    if isinstance(schema, dict):
        if schema.get("type") == "string" and not {"enum", "const"} & schema.keys():
            yield schema
        for key in ("items", "anyOf", "allOf", "oneOf", "prefixItems", "additionalProperties"):
            yield from strings(schema.get(key))
    elif isinstance(schema, list):
        for part in schema:
            yield from strings(part)


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"].rpartition("/")[2]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def texts_of(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """All texts that a request may have: where (query, header, path, or the name of a body), its name, its schema."""
    bodies, known_bodies = [], set[str]()
    for methods in document["paths"].values():
        for operation in methods.values():
            for parameter in operation.get("parameters", []):
                for schema in strings(parameter["schema"]):
                    yield parameter["in"], parameter["name"], schema
            bodies += list(references(operation.get("requestBody", {})))
    while bodies:
        body = bodies.pop()
        if body not in known_bodies:
            known_bodies.add(body)
            component = document["components"]["schemas"][body]
            bodies += list(references(component))
            for name, property_schema in component.get("properties", {}).items():
                for schema in strings(property_schema):
                    yield body, name, schema


def test_every_format_has_texts(document: dict[str, Any]) -> None:
    formats = {schema["format"]: f"{where} {name}" for where, name, schema in texts_of(document) if "format" in schema}
    missing = {name: place for name, place in formats.items() if name not in TEXTS.keys() | _JSON_SCHEMAS_OWN}
    assert not missing, f"write texts for these formats in tests/fuzz/texts.py: {missing}"
    assert set(TEXTS) <= set(formats), "these formats are not in the document any more"


def test_every_free_text_has_a_format_or_is_known_to_be_plain(document: dict[str, Any]) -> None:
    free = {
        (where, name)
        for where, name, schema in texts_of(document)
        if "format" not in schema and schema.get("pattern") in _FREE
    }
    plain = {(where, name) for where, names in _PLAIN.items() for name in names}
    assert free - plain == set(), "give these texts a `format` and texts in tests/fuzz/texts.py, or add them to _PLAIN"
    assert plain - free == set(), "these are not free texts of the document any more"


def test_the_texts_of_a_format_are_made_again_with_the_same_number_and_some_are_right() -> None:
    """A fuzz whose every text is refused at once would look at nothing behind the first check."""
    remember("cursor", CURSOR)
    right = {
        "source": {"digits", "synthetic"}, "weights": {"none", "imagenet"}, "model": {"lenet5", "mlp"},
        "cursor": {CURSOR}, "byte-range": {"bytes=0-10"},
    }  # fmt: skip
    for name, text in (TEXTS | HEADERS | DECISIVE).items():
        few, again = ([text(Random(number)) for number in range(20)] for _ in range(2))  # noqa: S311
        assert few == again, name
        many = {text(Random(number)) for number in range(2000 if name in right else 100)}  # noqa: S311
        assert len(many) >= 2, name
        assert right.get(name, set()) <= many, name
