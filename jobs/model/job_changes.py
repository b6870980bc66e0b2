"""What may be changed of a job after its submission, as a request says it. Pure; read by the api and the command line.

`InvalidSpec` (`jobs.model.problems`) names every wrong field.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated, Any

from pydantic import AfterValidator, Field, StringConstraints, ValidationError

from jobs.model.printable import lines_text
from jobs.model.problems import FieldProblem, InvalidSpec, field_problems
from jobs.model.spec import (
    DEFAULT_NAME,
    DEFAULT_PRIORITY,
    DEFAULT_PROJECT,
    MOST_LABELS,
    LabelKey,
    LabelValue,
    Name,
    Priority,
    ProjectName,
    Seconds,
    Spec,
)
from jobs.model.spec_parts import SpecPart

MOST_IN_NOTES = 20_000  # characters


def _some_text(text: str) -> str | None:
    """The notes; null for those with nothing to read."""
    return lines_text(text) if text.strip() else None


Notes = Annotated[str, StringConstraints(max_length=MOST_IN_NOTES), AfterValidator(_some_text)]


class JobChanges(SpecPart):
    """Changes to a job. A field that is left out stays as it is."""

    name: Name = Field(DEFAULT_NAME, description="The name in lists")
    priority: Priority = Field(
        DEFAULT_PRIORITY,
        description="0 to 100. Only admins raise it above the ceiling of the project. Not of a job that has ended",
    )
    time_limit_s: Seconds | None = Field(
        None,
        description="The most seconds that an attempt may take, also the present one; null: no limit. Not of a job that"
        " has ended",
    )
    labels: dict[LabelKey, LabelValue | None] = Field(
        {}, max_length=2 * MOST_LABELS, description="Labels to set. A label whose value is null is removed"
    )
    notes: Notes | None = Field(
        None, description="What people write about the job, in Markdown. Null or an empty text removes them"
    )
    starred: bool = Field(False, description="Whether the job has a star, which everybody sees")
    archived: bool = Field(
        False, description="Whether lists may leave the job out. Only a job that has ended can be archived"
    )
    project: ProjectName = Field(
        DEFAULT_PROJECT,
        description="The [project](projects.md) that keeps the job. Only of an ended job that belongs to no study",
    )

    @property
    def fields(self) -> dict[str, Any]:
        """The fields that were given."""
        return self.model_dump(exclude_unset=True)


def parse_changes(text: str | bytes) -> JobChanges:
    """Read changes from JSON text; no text changes nothing. Raises `InvalidSpec`."""
    try:
        return JobChanges.model_validate_json(text or "{}")
    except ValidationError as error:
        raise InvalidSpec([_explained(problem) for problem in field_problems(error, JobChanges)]) from None


def changes_from(document: Mapping[str, Any]) -> JobChanges:
    """Read changes from a parsed document. Raises `InvalidSpec`."""
    return parse_changes(json.dumps(document))


def _explained(problem: FieldProblem) -> FieldProblem:
    """The problem, and what can change. Of a field of the spec it says that it is fixed, and what to do instead."""
    top = problem.field.partition(".")[0]
    is_known = top in Spec.model_fields
    if top in JobChanges.model_fields or (not is_known and problem.message.endswith("?")):  # it names the field meant
        return problem
    why = "is fixed since the submission: submit a clone" if is_known else problem.message
    return replace(problem, message=f"{why}. What can change: {', '.join(JobChanges.model_fields)}")
