"""Fixtures that submit a study, and a study whose jobs ran."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from tests.integration.api.answers import created
from tests.integration.api.studies.study_jobs import STUDY, Json, succeed


@pytest.fixture
def submit_study(api: TestClient) -> Callable[..., Json]:
    """Submits a study, with changes. Returns the created study."""

    def submit(**changes: Any) -> Json:
        return created(api, "/v1/studies", STUDY | changes)

    return submit


@pytest.fixture
def finished_study(sessions: Sessions, submit_study: Callable[..., Json]) -> Json:
    """A study whose jobs ran. 2 GPUs take as long as 1 with the label =1+1, and half as long with a|b."""
    study = submit_study(name="pipes and signs", grid={"gpus": [1, 2], "dataset.label": ["=1+1", "a|b"]})
    accuracies = [0.5, 0.8, 0.86]
    for cell, walls in zip(study["cells"], [(12, 12), (16, 20), (12, 12), (8, 10)], strict=True):
        for job, wall_s in zip(cell["jobs"], walls, strict=True):
            succeed(sessions, job["id"], wall_s, accuracies=accuracies, gpus=cell["gpus"])
    return study
