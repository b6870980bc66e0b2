"""What a job's row stores of the registered dataset version that it trains on. Written by `submission`."""

from collections.abc import Collection
from typing import Any

from sqlalchemy import ColumnElement, String, cast, func, select
from sqlalchemy.dialects.postgresql import ARRAY
from sqlalchemy.orm import Session

from jobs.db.tables import DatasetVersion, Job
from jobs.model.dataset_names import Reference, is_versioned, reference_of
from jobs.model.problems import FieldProblem, InvalidSpec

Ref = dict[str, Any]  # `Job.dataset_ref`


def refs_of(session: Session, sources: Collection[str]) -> dict[str, Ref]:
    """What jobs store of the versions that their specs name, by source. The versions are locked until the commit.

    Raises `InvalidSpec` if a version was removed after it was resolved.
    """
    references = {
        source: reference for source in sources if is_versioned(source) and (reference := reference_of(source))
    }
    if not references:
        return {}
    names = cast(sorted({reference.name for reference in references.values()}), ARRAY(String))
    rows = session.scalars(
        select(DatasetVersion)
        .where(
            DatasetVersion.deleted_at.is_(None),
            DatasetVersion.status == "ready",
            DatasetVersion.name == func.any(names),
        )
        .order_by(DatasetVersion.id)
        .with_for_update(read=True)
    )
    refs = {Reference(row.name, row.version): ref_of(row) for row in rows}
    gone = [source for source, reference in references.items() if reference not in refs]
    if gone:
        raise InvalidSpec([FieldProblem("dataset.source", "this version has been removed", gone[0])])
    return {source: refs[reference] for source, reference in references.items()}


def trains_on_version() -> ColumnElement[bool]:
    """Whether a job trains on a version, in a query that has the rows of both."""
    return Job.dataset_ref.contains(
        func.jsonb_build_object("name", DatasetVersion.name, "version", DatasetVersion.version)
    )


def ref_of(row: DatasetVersion) -> Ref:
    """What a job stores of the version that it trains on. Its ranks compare `expects` with the data."""
    facts = row.facts or {}
    targets = {"targets": facts["targets"]} if facts.get("targets") else {}
    return {
        "name": row.name,
        "version": row.version,
        "fingerprint": row.fingerprint,
        "source": row.source,
        "uploaded": row.upload_id is not None,
        "options": row.options,
        "expects": {"samples": facts["samples"], "test": facts["test"], "classes": len(facts["classes"])} | targets,
    }
