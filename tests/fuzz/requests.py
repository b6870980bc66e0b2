"""Requests with plausible and damaged texts in every place that the document names, thousands a minute.

Schemathesis looks at each operation in depth. This looks at all texts of all operations in little time. A number of a
request and the seed make the request again, apart from the texts of earlier answers in it.
"""

import json
import time
from random import Random
from typing import Any, NamedTuple
from urllib.parse import quote

import httpx2

from tests.code import archive_of
from tests.fuzz.answers import fault_of, noun_of, remember_texts
from tests.fuzz.texts import ODD, TEXTS, damaged, one_of, seen, some_headers

_METHODS = ("get", "post", "put", "patch", "delete")
_INTEGERS = [-1, 0, 1, 2, 3, 10, 100, 1000, 10_001, 2**31, 2**53, 2**63, 2**64, 10**30]
_FLOATS = [0.0, -0.0, 0.1, 1.0, -1.0, 1e-320, 1e300, 365.0, float("inf"), float("nan")]
_MOMENTS = one_of(
    "2030-01-31T09:00:00Z", "9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "99999-01-01T00:00:00Z",
    "2030-01-31T09:00:00+99:99", "2030-01-31", "٢٠٣٠-01-31T09:00:00Z", "2030-02-30T00:00:00Z", "1e3", "-1",
)  # fmt: skip
_SPEC = {"dataset": "digits", "model": "mlp", "epochs": 1}
_STUDY = {"base": _SPEC, "grid": {"batch_size": [16, 32]}}


class Request(NamedTuple):
    """A request to send."""

    method: str
    path: str
    operation: str
    query: list[tuple[str, str]]
    headers: dict[str, str]
    body: bytes | None


class Requests:
    """Makes requests to all operations of an OpenAPI document but some."""

    def __init__(self, document: dict[str, Any], *, without: tuple[str, ...]) -> None:
        self._schemas = document["components"]["schemas"]
        self._operations = [
            (method, path, operation)
            for path, methods in document["paths"].items()
            for method, operation in methods.items()
            if method in _METHODS and operation["operationId"] not in without
        ]
        self._places = [
            (method, path, {**operation, "parameters": [*_in_path(operation), parameter | {"required": True}]})
            for method, path, operation in self._operations
            for parameter in operation.get("parameters", [])
            if '"format"' in json.dumps(parameter["schema"])
        ]

    def make(self, random: Random) -> Request:
        """A request with several odd values; or to one place of a syntax, so that nothing else is refused before."""
        if random.random() < 0.5:
            return self._filled(random, *random.choice(self._places), {})
        return self._filled(random, *random.choice(self._operations), some_headers(random))

    def _filled(
        self, random: Random, method: str, path: str, operation: dict[str, Any], headers: dict[str, str]
    ) -> Request:
        query: list[tuple[str, str]] = []
        for parameter in operation.get("parameters", []):
            name, schema = parameter["name"], parameter["schema"]
            if parameter["in"] == "path":
                value = self._path_value(random, path, schema)
                path = path.replace(f"{{{name}}}", quote(value, safe="/" if random.random() < 0.5 else ""))
            elif random.random() < (0.97 if parameter["required"] else 0.35):
                values = self._value(random, schema)
                if parameter["in"] == "header":
                    headers[name] = str(values)
                else:
                    query += [(name, _as_text(value)) for value in (values if isinstance(values, list) else [values])]
        body = None
        if content := operation.get("requestBody", {}).get("content"):
            media_type = random.choice(sorted(content))
            body = self._body(random, operation["operationId"], media_type, content[media_type]["schema"])
            headers = {"Content-Type": media_type, **headers}
        return Request(method.upper(), path, operation["operationId"], query, headers, body)

    def _path_value(self, random: Random, path: str, schema: dict[str, Any]) -> str:
        if "format" in schema:
            return TEXTS[schema["format"]](random) or "x"
        known = seen(f"{noun_of(path)}-id", "x", "digits", "default", "admin")
        return (known if random.random() < 0.8 else damaged(known))(random) or "x"

    def _body(self, random: Random, operation: str, media_type: str, schema: dict[str, Any]) -> bytes:
        if "json" not in media_type:
            return random.randbytes(random.choice([0, 1, 100]))
        value = self._value(random, schema)
        if random.random() < 0.7 and isinstance(value, dict):  # so that not all is refused for its first field
            script = {"code": TEXTS["digest"](random), "command": ["python", "train.py"]}
            right = {"submit_job": random.choice([_SPEC, script]), "submit_study": _STUDY}.get(operation, {})
            value = right | dict(random.sample(list(value.items()), min(len(value), 2 if right else len(value))))
        text = json.dumps(value, ensure_ascii=random.random() < 0.5).encode(errors="surrogatepass")
        return text if random.random() < 0.97 else text[: random.randint(0, len(text))] + b"\xff"

    def _value(self, random: Random, schema: dict[str, Any]) -> Any:  # noqa: PLR0911 - one line for each type
        """A value of a schema; in one of fifty cases of another one."""
        if random.random() < 0.02:
            return random.choice([None, True, -1, 1e300, "x", random.choice(ODD), [], {}, [[[]]]])
        if "$ref" in schema:
            return self._value(random, self._schemas[schema["$ref"].rpartition("/")[2]])
        if parts := schema.get("anyOf") or schema.get("oneOf"):
            return self._value(random, random.choice(parts))
        if "enum" in schema or "const" in schema:
            return random.choice(schema.get("enum") or [schema["const"]])
        match schema.get("type"):
            case "object":
                return self._object(random, schema)
            case "array":
                return [self._value(random, schema.get("items", {})) for _ in range(random.randint(0, 3))]
            case "integer":
                return random.choice([*_INTEGERS, schema.get("minimum", 1), schema.get("maximum", 1)])
            case "number":
                return random.choice([*_FLOATS, schema.get("minimum", 0.5), schema.get("maximum", 0.5)])
            case "boolean":
                return random.random() < 0.5
            case "string":
                return _text(random, schema)
            case "null":
                return None
        return random.choice([1, "x", None, {}])

    def _object(self, random: Random, schema: dict[str, Any]) -> dict[str, Any]:
        """The required fields, and few others: each more is one more chance of being refused for it."""
        properties, required = schema.get("properties", {}), schema.get("required", [])
        others = [name for name in properties if name not in required]
        names = [*required, *random.sample(others, min(len(others), random.choice([0, 0, 0, 1, 1, 2])))]
        found = {name: self._value(random, properties[name]) for name in names if name in properties}
        if isinstance(any_other := schema.get("additionalProperties"), dict):
            found |= {TEXTS["field"](random): self._value(random, any_other) for _ in range(random.randint(0, 2))}
        return found


def _in_path(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [parameter for parameter in operation["parameters"] if parameter["in"] == "path"]


def _text(random: Random, schema: dict[str, Any]) -> str:
    if schema.get("format") == "date-time":
        return _MOMENTS(random)
    if schema.get("format") in TEXTS:
        return TEXTS[schema["format"]](random)
    words = one_of("x", "default", "admin", "chips", "a" * schema.get("maxLength", 64), seen("job-id", "3k9v"))
    return (words if random.random() < 0.7 else damaged(words))(random)


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def faults(
    url: str, token: str, *, seconds: float, seed: int, without: tuple[str, ...] = (), most: int = 5
) -> tuple[list[str], int]:
    """Send requests for some seconds: the first few faults, one for each operation, and the number of requests."""
    fault_of_operation: dict[str, str] = {}
    number, ends_at = 0, time.monotonic() + seconds
    with httpx2.Client(base_url=url, headers={"Authorization": f"Bearer {token}"}, timeout=30) as client:
        requests = Requests(client.get("/openapi.json").raise_for_status().json(), without=without)
        _fill(client)
        while time.monotonic() < ends_at and len(fault_of_operation) < most:
            number += 1
            request = requests.make(Random(f"{seed} {number}"))  # noqa: S311 - the same with each run
            fault = _sent(client, request)
            if fault is not None:
                fault_of_operation.setdefault(request.operation, f"request {number}: {request}\n    {fault}")
    return list(fault_of_operation.values()), number


def _fill(client: httpx2.Client) -> None:
    """Make rows to ask for, lists that have a second page, and code that specs can name."""
    archive = archive_of()
    new = {"filename": "code.tar.gz", "size_bytes": len(archive), "purpose": "code"}
    upload_id = client.post("/v1/uploads", json=new).raise_for_status().json()["id"]
    content, octets = f"/v1/uploads/{upload_id}/content?offset=0", {"Content-Type": "application/octet-stream"}
    client.put(content, content=archive, headers=octets).raise_for_status()
    for path, document in (
        ("/v1/code", {"upload": upload_id}), ("/v1/jobs", _SPEC), ("/v1/jobs", _SPEC), ("/v1/studies", _STUDY),
        ("/v1/uploads", {"filename": "chips.zip", "size_bytes": 10}), ("/v1/projects", {"name": "vision"}),
        ("/v1/webhooks", {"url": "https://example.com/hook"}),
    ):  # fmt: skip
        remember_texts(path, client.post(path, json=document).content, None)
    for path in ("/v1/jobs", "/v1/projects", "/v1/models", "/v1/datasets"):
        remember_texts(path, client.get(path, params={"limit": 1}).content, None)


def _sent(client: httpx2.Client, request: Request) -> str | None:
    """Send a request. Returns what is wrong with the answer. Of a stream only the first piece is read."""
    headers = {name: value.encode("latin-1", errors="ignore") for name, value in request.headers.items()}
    try:
        with client.stream(
            request.method, request.path, params=request.query, headers=headers, content=request.body
        ) as answer:
            media_type = answer.headers.get("Content-Type", "")
            if media_type.startswith("text/event-stream"):
                content = b"" if request.path == "/v1/events" else next(answer.iter_bytes(), b"")
            else:
                content = answer.read()
    except (httpx2.LocalProtocolError, httpx2.InvalidURL, ValueError):  # the client cannot send it
        return None
    except httpx2.TransportError as error:
        return f"no answer: {error!r}"
    remember_texts(request.path, content, answer.headers.get("ETag"))
    return fault_of(answer.status_code, content, media_type)
