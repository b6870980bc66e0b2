"""The base of all groups of requests, and how documents are sent."""

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hora.errors import Json
from hora.service.transport import Transport
from jobs.suggestions import meant

if TYPE_CHECKING:
    from pydantic import BaseModel

ENDED = frozenset({"succeeded", "failed", "cancelled"})


class Calls:
    """Requests to one service."""

    _wire: Transport


def key_header(given: str | None) -> dict[str, str]:
    """The header by which the service recognizes a repeated submission."""
    return {"Idempotency-Key": given or uuid4().hex}


def document_of(spec: "BaseModel | Mapping[str, Any]") -> Json:
    """The document to send. Of a model only the fields that were set: the others get the service's defaults."""
    return dict(spec) if isinstance(spec, Mapping) else spec.model_dump(mode="json", exclude_unset=True)


def filter_query(filters: Mapping[str, Any], known: Collection[str], noun: str) -> dict[str, Any]:
    """The filters of a list as the service reads them. Raises `TypeError` for one that there is not."""
    for name in filters:
        if name not in known:
            raise TypeError(f"no such filter of {noun} `{name}`{meant(name, known, '`')}")
    return {name: filters.get(name) for name in known}
