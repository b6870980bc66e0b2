"""A service that answers every request as the API document describes, with texts that the test chooses."""

import json
import re
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx2 as httpx

from api.main import app_for
from jobs.runtime.settings import Settings
from tests.unit.hora.played import NOW, PLAN, Answer

_DEEPEST = 12


@cache
def description() -> Mapping[str, Any]:
    """The API's own description."""
    settings = Settings(database_url="postgresql://nowhere/x", broker_url="memory://", token="x")
    return app_for(settings).openapi()


def answering(text: str, *, status: str = "succeeded") -> Answer:
    """A service whose answers have `text` in every free text field, and `status` where it is an allowed value."""
    description()  # fill the cache in one thread: a command may ask from several

    def answer(request: httpx.Request) -> httpx.Response:
        code, content = _successful_response(request)
        if "application/json" not in content:
            return httpx.Response(code, content=text.encode("utf-8", "surrogateescape") if content else b"")
        body = _value_of(content["application/json"].get("schema", {}), text, status)
        if "after" in request.url.params and request.url.params["after"] != "0":
            body["items"] = []  # the log has no more lines
        if "received_bytes" in body:
            body["received_bytes"] = 2**31  # all of an upload
        return httpx.Response(code, content=json.dumps(body), headers={"Content-Type": "application/json", "ETag": "1"})

    return answer


def _successful_response(request: httpx.Request) -> tuple[int, Mapping[str, Any]]:
    """The code and the content of the successful answer to a request."""
    method, path = request.method.lower(), request.url.raw_path.decode().partition("?")[0]
    choose = min if "dry_run" in request.url.params else max  # a dry run answers 200 where a real one answers 201
    for template, operations in description()["paths"].items():
        if method in operations and re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", template), path):
            responses = operations[method]["responses"]
            successes = {code for code in responses if code.startswith("2")}
            code = choose({code for code in successes if "content" in responses[code]} or successes)
            return int(code), responses[code].get("content", {})
    raise AssertionError(f"the API has no {method} {path}")


def _value_of(schema: Mapping[str, Any], text: str, status: str, name: str = "", depth: int = 0) -> Any:  # noqa: PLR0911
    """A value that fits this schema."""
    schema = _without_references(schema)
    if name == "next_cursor" or depth > _DEEPEST:
        return None
    likely = _without_references(schema.get("anyOf", [schema])[0])
    is_other_best = name == "best" and (likely.get("type") == "number" or "properties" in likely)  # a metric's
    if name in _FREE and not is_other_best:
        return _FREE[name](text)
    if "anyOf" in schema:
        return _value_of(schema["anyOf"][0], text, status, name, depth)
    if "const" in schema or "enum" in schema:
        allowed = schema.get("enum") or [schema["const"]]
        return status if status in allowed else allowed[0]
    match schema.get("type"):
        case "object" if "properties" in schema:
            return {key: _value_of(one, text, status, key, depth + 1) for key, one in schema["properties"].items()}
        case "object":
            values = schema.get("additionalProperties", False)
            return {text: _value_of(values, text, status, "", depth + 1)} if isinstance(values, dict) and values else {}
        case "array":
            return [_value_of(schema.get("items", {}), text, status, "", depth + 1)]
        case "string":
            return NOW if schema.get("format") == "date-time" else text
        case "integer" | "number":
            return 1
        case "boolean":
            return True
        case _:
            return text


# The values of fields that the API describes only as an object.
_FREE = {
    "spec": lambda text: {
        "name": text,
        "dataset": {"source": text},
        "model": {"name": text},
        "gpus": 1,
        "code": text,
        "command": [text],
        "params": {text: text},
        "labels": {"git.commit": text},
        "environment": text,
    },
    "plan": lambda _: PLAN,
    "info": lambda text: {"system": text, "driver": {"version": text, "cuda": text}, "topology": [], "gpus": []},
    "values": lambda text: {text: text},
    "counts": lambda _: {"succeeded": 1, "failed": 1},
    "reading": lambda _: None,
    "probe": lambda _: None,
    "ledger": lambda text: {"leased_s": 1.0, "items": {text: 1.0}},
    "best": lambda text: {text: 0, "goal": 0},
    "setup": lambda text: {text: 1.0},
}


def _without_references(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = description()["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return schema
