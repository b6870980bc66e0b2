"""What the fuzz takes from answers, and what every answer must be, whatever was asked."""

import json
import re

from tests.fuzz.texts import remember

_EVENT_ID = re.compile(rb"^id: (\S+)$", re.MULTILINE)
_PRIVATE = re.compile(r"Traceback|File \"|site-packages|psycopg|sqlalchemy|/tmp/", re.IGNORECASE)


def remember_texts(path: str, content: bytes, entity_tag: str | None) -> None:
    """Keep the cursors, ids and tags of an answer, to send them back later."""
    if entity_tag is not None:
        remember("entity-tags", entity_tag)
    for event_id in _EVENT_ID.findall(content):
        remember("event-id", event_id.decode())
    try:
        document = json.loads(content)
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    named = {"next_cursor": "cursor", "digest": "digest", "id": f"{noun_of(path)}-id"}
    for part in (document, *(document.get("items") or [])):
        for name, kind in named.items():
            if isinstance(part, dict) and isinstance(part.get(name), str):
                remember(kind, part[name])


def noun_of(path: str) -> str:
    """`job` for a path below /v1/jobs."""
    return path.split("/")[2].removesuffix("s").replace("studie", "study") if path.count("/") > 1 else ""


def fault_of(status: int, content: bytes, media_type: str) -> str | None:
    """What is wrong with an answer; None for a good one."""
    if status >= 500:
        return f"{status}: {content[:300].decode(errors='replace')}"
    if status < 400 or (status == 400 and media_type.startswith("text/plain")):  # the server's own: it is no HTTP
        return None
    if not media_type.startswith("application/problem+json"):
        return f"{status} without a problem document: {content[:300]!r}"
    problem = json.loads(content)
    reasons = [problem["type"], problem["title"], *(error["message"] for error in problem.get("errors", []))]
    if status == 422:
        reasons.append(problem.get("detail"))
    if not all(reasons):
        return f"{status} without a reason: {content[:300]!r}"
    return f"an answer that names something private: {content[:600]!r}" if _PRIVATE.search(str(problem)) else None
