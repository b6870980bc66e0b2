"""Checkpoints of jobs in the store."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import Field

from jobs.views.base import View


class CheckpointFileView(View):
    """A file of a checkpoint."""

    path: str = Field(description="The path within the checkpoint, with slashes")
    bytes: int
    sha256: str


class CheckpointView(View):
    """A checkpoint that is whole in the store."""

    attempt: int = Field(description="The attempt that saved it")
    step: int
    epoch: int
    saved_at: datetime
    bytes: int = Field(description="The size of its files together")
    is_best: bool = Field(description="Whether it is the best one that the job saved")
    files: Sequence[CheckpointFileView]
