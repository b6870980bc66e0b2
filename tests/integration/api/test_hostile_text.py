"""Every string of a spec, with texts that mean something to a shell, a terminal, a path or a log.

Each is refused at its field, or stored as it is. That what is stored is not run: `tests/acceptance/test_threats.py`.
"""

import hashlib
from collections.abc import Iterator
from itertools import product
from typing import Any, get_args

import pytest
from fastapi.testclient import TestClient
from pydantic import BaseModel

from jobs.db.engine import Sessions
from jobs.model.spec import Spec
from jobs.runtime.settings import Settings
from tests.code import archive_of, store_code
from tests.integration.api.starting_rows import SPEC, TOKEN

DIGEST = hashlib.sha256(archive_of()).hexdigest()

HOSTILE = {
    "substitution": "$(touch canary)",
    "backquotes": "`touch canary`",
    "end of command": "x; touch canary",
    "pipe": "x | touch canary",
    "leading dash": "--load=canary",
    "line end": "x\ntouch canary",
    "carriage return": "x\r\nX-Evil: 1",
    "NUL": "x\0y",
    "escape": "\x1b]0;owned\x07\x1b[2J",
    "C1 control": "x\x9b2J",
    "environment": "LD_PRELOAD=/tmp/canary.so",
    "format": "%s%n{0.__class__}${jndi:x}",
    "up": "../../etc/passwd",
    "absolute": "/etc/passwd",
    "twice encoded": "%252e%252e%252fetc",
    "markup": "<script>alert(1)</script>",
    "SQL": "x'; DROP TABLE jobs; --",
    "long": "x" * 100_000,
}


def text_fields(model: type[BaseModel], prefix: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The path of each field of a model that takes a text, with those of its parts."""
    for name, field in model.model_fields.items():
        kinds = set(_flat(field.annotation))
        if str in kinds:
            yield (*prefix, name)
        for kind in kinds:
            if isinstance(kind, type) and issubclass(kind, BaseModel):
                yield from text_fields(kind, (*prefix, name))


def _flat(annotation: Any) -> Iterator[Any]:
    yield annotation if not isinstance(annotation, str) else str
    for part in get_args(annotation):
        yield str if isinstance(part, str) else part
        yield from _flat(part) if not isinstance(part, str) else ()


FIELDS = sorted(set(text_fields(Spec)))


# What these hold is for a program: only NUL is refused, which no argument and no row may have.
FREE_TEXTS = {"command", "params", "env"}
SCRIPT_FIELDS = FREE_TEXTS | {"code", "environment", "requirements", "goal"}


def script_with(path: tuple[str, ...], text: str) -> dict[str, Any]:
    """The smallest spec of a script with `text` in one field."""
    script: dict[str, Any] = {"code": DIGEST, "command": ["python", "train.py"]}
    values: dict[str, Any] = {
        "command": ["python", text],
        "params": {"key": text, text: "value"},
        "env": {"KEY": text},
        "requirements": [text],
        "goal": {path[-1]: text, **({} if path[-1] == "metric" else {"metric": "val_iou"})},
    }
    return script | {path[0]: values.get(path[0], text)}


def spec_with(path: tuple[str, ...], text: str) -> dict[str, Any]:
    """The smallest spec with `text` in one field."""
    if path[0] in SCRIPT_FIELDS:
        return script_with(path, text)
    spec: dict[str, Any] = {**SPEC, "dataset": {"source": "digits"}, "model": {"name": "mlp"}}
    if path == ("labels",):
        return spec | {"labels": {"key": text, text: "value"}}
    if path[:2] == ("dataset", "augment"):
        item: Any = {path[2]: text} if path[2:] else text
        return spec | {"dataset": {"source": "digits", "augment": [item]}}
    if path[0] == "alerts":
        return spec | {"alerts": [{"log": "x"} | {path[1]: text} if path[1] == "level" else {path[1]: text}]}
    *above, last = path
    place = spec
    for part in above:
        place = place.setdefault(part, {})
    place[last] = text
    return spec


def texts_in(value: Any) -> list[Any]:
    """All texts of a JSON value, keys included."""
    if isinstance(value, dict):
        return [*value, *(text for inner in value.values() for text in texts_in(inner))]
    return [text for inner in value for text in texts_in(inner)] if isinstance(value, list) else [value]


@pytest.fixture
def configuration(database: str, sessions: Sessions) -> Settings:
    assert store_code(sessions) == DIGEST
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, code="on")


def test_hostile_text_is_refused_at_its_field_or_stored_as_it_is(api: TestClient, subtests: pytest.Subtests) -> None:
    assert {("name",), ("labels",), ("project",), ("dataset", "source"), ("model", "weights")} <= set(FIELDS)
    assert len(FIELDS) > 15
    for path in (("command",), ("params",), ("env",), ("requirements",)):  # a harmless text is stored where it may be
        answer = api.post("/v1/jobs", json=script_with(path, "einops"))
        assert answer.status_code == (422 if path == ("requirements",) else 201), answer.text  # no stack installs them
    for path, (kind, text) in product(FIELDS, HOSTILE.items()):
        with subtests.test(f"{path} {kind}"):
            answer = api.post("/v1/jobs", json=spec_with(path, text))
            if answer.status_code == 201:
                assert answer.json()["spec"] == api.get(answer.headers["Location"]).json()["spec"]
                stored = answer.json()["spec"]
                for part in path:
                    stored = stored[0][part] if isinstance(stored, list) else stored[part]
                assert text in texts_in(stored)
                assert path[0] in FREE_TEXTS or not set(text) & set(map(chr, range(32)))
            else:
                assert answer.status_code == 422, answer.text
                named = [error["field"].replace(".0.", ".") for error in answer.json()["errors"]]
                place = ".".join(path[:2])  # deeper are only items of lists
                assert any(f"{field}.".startswith(f"{place}.") for field in named), named
                assert len(answer.content) < 5_000, "it sends back what it was sent"


def test_an_answer_does_not_repeat_much_of_a_long_request(api: TestClient) -> None:
    for labels in ({f"k{i}": "v" for i in range(10_000)}, {"k": "v" * 10_000}):
        answer = api.post("/v1/jobs", json=SPEC | {"labels": labels})
        assert answer.status_code == 422
        assert len(answer.content) < 10_000
    for parameters in ({"limit": "9" * 20_000}, {"x" * 20_000: "1"}):
        answer = api.get("/v1/jobs", params=parameters)
        assert answer.status_code == 422
        assert len(answer.content) < 2_000
    answer = api.post("/v1/jobs", json=SPEC | {f"field-{number}": 1 for number in range(20_000)})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 50
    assert answer.json()["detail"].endswith("and 19950 more")
