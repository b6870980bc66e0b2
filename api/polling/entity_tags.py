"""Entity tags: if a caller already has an answer, they get 304. Called by the routes that are polled.

All tags are weak, as of RFC 9110: two answers with one tag say the same, though one may be compressed.
The tag is read before its answer. So it may be older than the answer, but never newer: a caller who sends it later may
get an answer twice, but never misses one.
"""

import hashlib
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from fastapi import Response
from pydantic import BaseModel

from jobs.scheduling.queue import Standing

JSON = "application/json"
UNCHANGED: dict[int | str, dict[str, Any]] = {304: {"description": "The caller has this answer already"}}


def installed_version() -> str:
    """The version of Hora; 0 in a checkout that is not installed."""
    try:
        return version("hora")
    except PackageNotFoundError:
        return "0"


_VERSION = installed_version()  # another version may give another answer from the same rows


def tag_of(*parts: object) -> str:
    """The tag of an answer that depends on these parts: versions, and the query."""
    return f'W/"{_digest(*parts)}"'


def job_tag(revision: int, standing: Standing | None = None) -> str:
    """The tag of a job's view. What a queued job waits for changes without its row, so it is part of the tag."""
    waiting = () if standing is None else (standing.position, standing.reason, standing.starts_in_s)
    return f'W/"{revision}-{_digest(*waiting)}"'


def study_tag(study_id: str, version: str) -> str:
    """The tag of a study's view, from its version (`versions.of_study`)."""
    return tag_of("study", study_id, version)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, (_VERSION, *parts))).encode()).hexdigest()[:16]


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether the caller has the answer with this entity tag already; compared weakly, as of RFC 9110."""
    known_tags = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return bool(known_tags & {"*", tag.removeprefix("W/")})


def unchanged(tag: str) -> Response:
    """304, for a caller who has the answer with this tag."""
    return Response(status_code=304, headers=tagged_with(tag))


def tagged_with(tag: str) -> dict[str, str]:
    """The headers of an answer with this tag. Only its caller may keep it, and checks it before each use."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def answer_with(view: BaseModel, tag: str) -> Response:
    """The answer itself."""
    return Response(view.model_dump_json(), headers=tagged_with(tag), media_type=JSON)


def answer_or_304(view: BaseModel, if_none_match: str | None, *, exclude_from_tag: Any = None) -> Response:
    """A small answer, or 304. The tag is computed from the answer, so the answer is made in any case.

    `exclude_from_tag` names the fields that do not count as a change, such as ages; as pydantic's `exclude`.
    """
    body = view.model_dump_json()
    tag = tag_of(body if exclude_from_tag is None else view.model_dump_json(exclude=exclude_from_tag))
    return unchanged(tag) if is_known(tag, if_none_match) else Response(body, headers=tagged_with(tag), media_type=JSON)
