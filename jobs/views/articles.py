"""Articles: pages of prose with figures of jobs in them, that people write."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import AfterValidator, ConfigDict, Field, StringConstraints

from jobs.model.printable import one_form
from jobs.model.spec import DEFAULT_PROJECT, ProjectName
from jobs.views.base import View

MOST_CHARACTERS = 100_000  # of a text
MOST_JOBS = 100  # of a block

Title = Annotated[
    str,
    AfterValidator(one_form),
    StringConstraints(pattern=r"^[^\x00-\x1f\x7f-\x9f]+$", min_length=1, max_length=200),
]
Text = Annotated[str, StringConstraints(pattern=r"^[^\x00]*$", max_length=MOST_CHARACTERS)]
BlockAxis = Literal["epoch", "step", "time"]

_TEXT = "Markdown with blocks; see docs/articles.md"


class NewArticle(View):
    """An article to create."""

    model_config = ConfigDict(
        extra="forbid",
        json_schema_extra={
            "examples": [
                {
                    "title": "Which batch?",
                    "text": "Larger batches were faster:\n\n```hora\nchart: val_accuracy\nstudy: 7m2k0q9d4v1s\n```\n",
                }
            ]
        },
    )

    title: Title = Field(description="The title, on one line")
    text: Text = Field("", description=_TEXT)
    project: ProjectName = Field(DEFAULT_PROJECT, description="The project whose members may change it")


class ArticleChanges(View):
    """A new version of an article. What is left out stays."""

    model_config = ConfigDict(
        extra="forbid", json_schema_extra={"examples": [{"version": 3, "text": "Larger batches were slower."}]}
    )

    version: int = Field(ge=1, le=2**31 - 1, description="The version that you changed: 409 if there is a newer one")
    title: Title | None = Field(None, description="The title, on one line")
    text: Text | None = Field(None, description=_TEXT)


class Runs(View):
    """The jobs of a block: those of `jobs`, of a study, or of a filter."""

    jobs: list[str] | None = None
    study: str | None = None
    filter: str | None = Field(
        None, description="Query parameters of `GET /v1/jobs`, as in `status=succeeded&label=a:b`"
    )
    limit: int = Field(description="The most jobs of it, the newest first")


class ProseBlock(View):
    """Markdown, without HTML."""

    kind: Literal["prose"] = "prose"
    text: str


class ChartBlock(View):
    """Curves of metrics: one chart for each metric."""

    kind: Literal["chart"] = "chart"
    metrics: list[str]
    runs: Runs
    axis: BlockAxis
    group: str | None = Field(
        description="A column whose equal values make a group: its mean, and its lowest and highest"
    )
    title: str | None


class TableBlock(View):
    """A row for each job."""

    kind: Literal["table"] = "table"
    columns: list[str]
    runs: Runs
    title: str | None


Block = Annotated[ProseBlock | ChartBlock | TableBlock, Field(discriminator="kind")]


class ArticlePreview(View):
    """What a text would be."""

    blocks: list[Block] = Field(description="The text in its parts")


class ArticleLine(View):
    """An article in a list."""

    id: str
    owner: str
    project: str
    title: str
    version: int = Field(description="The number of this version, from 1; in lists the newest")
    author: str = Field(description="Who wrote this version")
    created_at: datetime
    changed_at: datetime = Field(description="When this version was written")


class ArticleView(ArticleLine):
    """An article: one version of it, by default the newest."""

    text: str = Field(description=_TEXT)
    blocks: list[Block] = Field(description="The text in its parts")


class ArticleVersionView(View):
    """A version in the history of an article."""

    version: int
    author: str
    title: str
    created_at: datetime
    characters: int = Field(description="Of its text")
