"""Hostile texts of a spec are stored as they are, and refusals stay short.

Which field refuses which text: `tests/unit/jobs/model/test_spec_numbers.py`.
"""

from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db.engine import Sessions
from jobs.runtime.settings import Settings
from tests.code import store_code
from tests.integration.api.starting_rows import SPEC, TOKEN
from tests.unit.jobs.model.test_spec_numbers import HOSTILE


@pytest.fixture
def configuration(database: str) -> Settings:
    return Settings(database_url=database, broker_url="memory://", token=TOKEN, code="on")


def test_hostile_text_is_stored_as_it_is(api: TestClient, sessions: Sessions) -> None:
    texts = [text for text in HOSTILE if len(text) < 1000 and "\0" not in text]
    script: dict[str, Any] = {"code": store_code(sessions), "command": ["python", *texts]}
    script["params"] = dict(zip(texts, texts[1:] + texts[:1], strict=True))
    script["env"] = {f"KEY_{number}": text for number, text in enumerate(texts)}
    answer = api.post("/v1/jobs", json=script)
    assert answer.status_code == 201, answer.text
    stored = api.get(answer.headers["Location"]).json()["spec"]
    assert stored == answer.json()["spec"]
    assert {name: stored[name] for name in ("command", "params", "env")} == {
        name: script[name] for name in ("command", "params", "env")
    }
    answer = api.post("/v1/jobs", json=script | {"requirements": ["einops"]})
    assert answer.status_code == 422, "this stack installs none"


def test_an_answer_names_only_the_first_of_many_wrong_fields(api: TestClient) -> None:
    """How long one of them may be: `tests/unit/api/test_problems.py`."""
    answer = api.post("/v1/jobs", json=SPEC | {f"field-{number}": 1 for number in range(20_000)})
    assert (answer.status_code, len(answer.json()["errors"])) == (422, 50)
    assert answer.json()["detail"].endswith("and 19950 more")
