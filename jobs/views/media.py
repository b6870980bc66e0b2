"""Pictures, sounds, histograms, tables and curves of jobs, by step."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from pydantic import Field

from jobs.views.base import View

MediaKind = Literal["image", "audio", "histogram", "table", "confusion_matrix", "curve"]


class MediaStepView(View):
    """One file: what the job kept under a name at a step."""

    step: int | None = Field(description="Null: it belongs to the whole run", examples=[1200])
    path: str = Field(description="The path within the job's artifacts", examples=["media/val/samples/0000001200.png"])
    bytes: int
    modified_at: datetime
    caption_path: str | None = Field(None, description="The path of a text that was kept with a picture")


class MediaView(View):
    """What a job kept under a name, by step."""

    name: str = Field(examples=["val/samples"])
    kind: MediaKind
    steps: Sequence[MediaStepView] = Field(description="Sorted by step, the one of the whole run last; at most 1,000")
