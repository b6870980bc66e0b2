"""Artifacts of jobs."""

from datetime import datetime

from pydantic import Field

from jobs.views.base import View


class ArtifactView(View):
    """A file that a job left."""

    path: str = Field(description="The path within the job's artifacts, with slashes", examples=["model.weights.h5"])
    bytes: int
    modified_at: datetime
    media_type: str = Field(examples=["application/octet-stream"])
