"""Archives of code."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobs.views.base import View


class NewCodeArchive(BaseModel):
    """An archive of code that was uploaded (.tar.gz, .tar or .zip)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    upload: Annotated[
        str,
        Field(
            pattern="^[0-9a-z]{1,32}$",
            description="The id of a complete upload",
            json_schema_extra={"format": "upload-id"},
        ),
    ]


class CodeFileView(View):
    """A file of an archive of code."""

    path: str
    size_bytes: int
    sha256: str


class CodeView(View):
    """An archive of code. It never changes."""

    digest: str = Field(description="SHA-256 of the archive's bytes: the `code` of a spec")
    size_bytes: int
    unpacked_bytes: int
    files: Sequence[CodeFileView] = Field(description="Sorted by path")
    created_at: datetime
    used_at: datetime = Field(description="When it was last sent, or a job was submitted with it")


class FileDifferenceView(View):
    """A file that differs between two archives of code."""

    path: str
    change: Literal["added", "removed", "changed"]
    hunks: str | None = Field(
        description="Its hunks in the form of `diff -u`, from the first `@@` on. Null: it is no text, or too long"
    )


class CodeDifferenceView(View):
    """How two archives of code differ. It never changes."""

    before: str = Field(description="The digest of the first archive")
    after: str = Field(description="The digest of the second archive")
    files: Sequence[FileDifferenceView] = Field(description="Sorted by path")
