"""What all groups of calls stand on: the wire, and how a document is sent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from hora.errors import Json
from hora.service.transport import Transport

if TYPE_CHECKING:
    from pydantic import BaseModel

ENDED = frozenset({"succeeded", "failed", "cancelled"})


class Calls:
    """Calls of one service."""

    _wire: Transport


def key_header(given: str | None) -> dict[str, str]:
    """The header by which the service knows a submission again."""
    return {"Idempotency-Key": given or uuid4().hex}


def document_of(spec: "BaseModel | Mapping[str, Any]") -> Json:
    """What is sent: of a model only what was set, so that the service's own defaults hold for the rest."""
    return dict(spec) if isinstance(spec, Mapping) else spec.model_dump(mode="json", exclude_unset=True)
