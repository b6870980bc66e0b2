"""What the process that makes HTML and PDF gets of an article: prose, pictures and tables. Pure.

Called by `figures`, which makes it, and by `api.processes.article_page`, which reads it.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from jobs.insight.studies.plots import Panel


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Prose(_Part):
    """Markdown."""

    kind: Literal["prose"] = "prose"
    text: str


class Picture(_Part):
    """Charts, with a title and a sentence that says what is in them."""

    kind: Literal["picture"] = "picture"
    title: str
    panels: list[Panel]
    caption: str


class Grid(_Part):
    """A table: texts and numbers."""

    kind: Literal["grid"] = "grid"
    title: str
    columns: list[str]
    rows: list[list[str]]
    caption: str


Part = Annotated[Prose | Picture | Grid, Field(discriminator="kind")]


class Document(_Part):
    """An article with what its figures show now."""

    title: str
    byline: str
    parts: list[Part]
    as_pdf: bool = False
