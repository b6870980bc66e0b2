"""Entity tags: whether a caller has an answer already, and 304 where they do. Called by the routes that are polled.

All tags are weak, as of RFC 9110: two answers with one tag say the same, if not in the same bytes (one may be packed).
A tag is read before the answer that it goes with, so it may be older than that, and never newer: whoever comes back
with it may get an answer once more, and never misses one.
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


_MADE_BY = installed_version()  # another version may say more of the same rows


def tag_of(*parts: object) -> str:
    """The tag of an answer that all of this decides: versions, and the query."""
    return f'W/"{_digest(*parts)}"'


def job_tag(revision: int, standing: Standing | None = None) -> str:
    """The tag of a job's view: what a job waits for changes without its row."""
    told = () if standing is None else (standing.position, standing.reason)
    return f'W/"{revision}-{_digest(*told)}"'


def study_tag(study_id: str, version: str) -> str:
    """The tag of a study's view, from its version (`versions.of_study`)."""
    return tag_of("study", study_id, version)


def _digest(*parts: object) -> str:
    return hashlib.sha256("\n".join(map(str, (_MADE_BY, *parts))).encode()).hexdigest()[:16]


def is_known(tag: str, if_none_match: str | None) -> bool:
    """Whether the caller has the answer with this entity tag already; compared weakly, as of RFC 9110."""
    known = {part.strip().removeprefix("W/") for part in (if_none_match or "").split(",")}
    return bool(known & {"*", tag.removeprefix("W/")})


def unchanged(tag: str) -> Response:
    """The answer for a caller who has the one with this tag."""
    return Response(status_code=304, headers=tagged_with(tag))


def tagged_with(tag: str) -> dict[str, str]:
    """The headers of an answer with this tag: kept by its caller alone, and asked for again before it is used."""
    return {"ETag": tag, "Cache-Control": "private, no-cache"}


def answer_with(view: BaseModel, tag: str) -> Response:
    """The answer itself."""
    return Response(view.model_dump_json(), headers=tagged_with(tag), media_type=JSON)


def answer_once(view: BaseModel, if_none_match: str | None, *, untold: Any = None) -> Response:
    """A small answer, or 304: its tag is that of what it says, so it is made in any case.

    `untold` is what the tag leaves out, as pydantic's `exclude`: what only counts time.
    """
    body = view.model_dump_json()
    tag = tag_of(body if untold is None else view.model_dump_json(exclude=untold))
    return unchanged(tag) if is_known(tag, if_none_match) else Response(body, headers=tagged_with(tag), media_type=JSON)
