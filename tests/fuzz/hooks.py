"""What Schemathesis loads: the texts of `tests.fuzz.texts` for the formats of the document, and other headers.

The document names only the headers that a route reads. Proxies and clients send many others.
"""

import json
import re
from random import Random
from typing import Any

import schemathesis
from hypothesis import strategies as st

from api.serving.protocol import MAX_HEAD_BYTES
from tests.fuzz.answers import remember_texts
from tests.fuzz.texts import TEXTS, some_headers

_OTHER_TEXT = re.compile(r"violates `format` at \S*?/properties/([\w-]+)")
_randoms = st.integers(0, 2**32 - 1).map(Random)

for name, text in TEXTS.items():
    schemathesis.openapi.format(name, _randoms.map(text))


@schemathesis.hook
def flatmap_case(context: Any, case: Any) -> st.SearchStrategy[Any]:
    """Add headers that the case does not have. Without `Accept`: Schemathesis would wait for the end of a stream."""

    def with_headers(headers: dict[str, str]) -> Any:
        own = {"accept", *(name.lower() for name in case.headers)}
        case.headers.update({name: value for name, value in headers.items() if name.lower() not in own})
        return case

    return _randoms.map(some_headers).map(with_headers)


@schemathesis.hook
def filter_failure(context: Any, failure: Any, case: Any, response: Any) -> bool:
    """Keep all failures but two kinds.

    A text that differs from our strategy of its format is no wrong text. A head that is too large is refused by the
    server, whatever the route.
    """
    if response.status_code == 431:
        return _head_bytes(response.request) <= MAX_HEAD_BYTES
    parameters = case.operation.definition.raw.get("parameters", [])
    times = {parameter["name"] for parameter in parameters if '"date-time"' in json.dumps(parameter)}
    return not any(name not in times for name in _OTHER_TEXT.findall(failure.message))


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    """Remember the texts of an answer."""
    tags = response.headers.get("etag", [])
    remember_texts(case.path, response.content or b"", tags[0] if tags else None)


def _head_bytes(request: Any) -> int:
    """About the size of a request's first line and headers."""
    return len(request.url) + sum(len(name) + len(value) + 4 for name, value in request.headers.items())
