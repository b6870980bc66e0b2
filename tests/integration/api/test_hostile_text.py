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


def test_an_answer_does_not_repeat_much_of_a_long_request(api: TestClient) -> None:
    for changes in (
        {"labels": {f"k{i}": "v" for i in range(10_000)}}, {"labels": {"k": "v" * 10_000}}, {"name": "x" * 100_000},
    ):  # fmt: skip
        answer = api.post("/v1/jobs", json=SPEC | changes)
        assert answer.status_code == 422
        assert len(answer.content) < 10_000
    for parameters in ({"limit": "9" * 20_000}, {"x" * 20_000: "1"}):
        answer = api.get("/v1/jobs", params=parameters)
        assert answer.status_code == 422
        assert len(answer.content) < 2_000
    answer = api.post("/v1/jobs", json=SPEC | {f"field-{number}": 1 for number in range(20_000)})
    assert answer.status_code == 422
    assert len(answer.json()["errors"]) == 50
    assert answer.json()["detail"].endswith("and 19950 more")
