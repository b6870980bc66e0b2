"""The fuzz has texts for every syntax of the OpenAPI document. A new syntax without texts fails here, by its name."""

from collections.abc import Iterator
from random import Random
from typing import Any

from api.document import document as openapi_document
from tests.fuzz.texts import DECISIVE, HEADERS, TEXTS, remember

_JSON_SCHEMAS_OWN = {"date-time", "binary"}
CURSOR = "AAECAwQFBgcICQoLDA0ODxAR"


def formats_in(part: Any, schemas: dict[str, Any], known: set[str]) -> Iterator[str]:
    """The formats of all texts in a part of the document, and in the components to which it refers."""
    if isinstance(part, dict):
        name = part["$ref"].rpartition("/")[2] if isinstance(part.get("$ref"), str) else ""
        if name and name not in known:
            known.add(name)
            yield from formats_in(schemas[name], schemas, known)
        if part.get("type") == "string" and "format" in part:
            yield part["format"]
    for inner in part.values() if isinstance(part, dict) else part if isinstance(part, list) else ():
        yield from formats_in(inner, schemas, known)


def test_every_format_has_texts() -> None:
    document = openapi_document()
    operations = [operation for methods in document["paths"].values() for operation in methods.values()]
    asked = [[operation.get("parameters"), operation.get("requestBody")] for operation in operations]
    formats = set(formats_in(asked, document["components"]["schemas"], set()))
    assert formats - TEXTS.keys() <= _JSON_SCHEMAS_OWN, "write texts for these formats in tests/fuzz/texts.py"
    assert set(TEXTS) <= formats, "these formats are not in the document any more"


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
