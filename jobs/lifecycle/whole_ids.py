"""Ids of jobs and studies by their beginnings. Called by the api for paths and queries, and for the jobs of a spec.

A person may write the beginning of an id that no other id has. Whole ids are never looked up, so they cost no query.
"""

from collections.abc import Iterable, Mapping, Sequence

from sqlalchemy import String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import InstrumentedAttribute, Session

from jobs.lifecycle.store import ID_ALPHABET, ID_LENGTH

_MOST_NAMED = 5  # ids that begin with the same characters


def is_beginning(text: str) -> bool:
    """Whether a text is shorter than an id."""
    return len(text) < ID_LENGTH


def ids_that_begin(
    session: Session, column: InstrumentedAttribute[str], texts: Iterable[str]
) -> dict[str, Sequence[str]]:
    """For each text that is shorter than an id, the first few ids of the table that begin so.

    It reads the index of the table: LIKE would read all ids.
    """
    beginnings = sorted({text for text in texts if is_beginning(text)})
    if not beginnings:
        return {}
    begin = func.unnest(cast(beginnings, ARRAY(String))).column_valued("begin")
    matching = (
        select(column.label("id"))
        .where(column.between(begin, func.rpad(begin, ID_LENGTH, ID_ALPHABET[-1])))
        .order_by(column)
        .limit(_MOST_NAMED + 1)
        .lateral("matching")
    )
    found: dict[str, list[str]] = {text: [] for text in beginnings}
    for text, job_id in session.execute(select(begin, matching.c.id).order_by(matching.c.id)):
        found[text].append(job_id)
    return dict(found)


def the_only(text: str, matching: Mapping[str, Sequence[str]]) -> str:
    """The only id that begins so; the text itself if there is none, or if there are several."""
    ids = matching.get(text, ())
    return ids[0] if len(ids) == 1 else text


def ambiguity(text: str, matching: Mapping[str, Sequence[str]]) -> str | None:
    """A sentence that names some of the ids that begin so; None if there are not several."""
    ids = matching.get(text, ())
    if len(ids) < 2:
        return None
    named = ", ".join(ids[:_MOST_NAMED]) + (" and others" if len(ids) > _MOST_NAMED else "")
    return f"{named} begin so; write more of the id"
