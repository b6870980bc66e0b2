"""Jobs that continue others, as the command line submits them."""

import json

import pytest

from hora.cli.submitting import submit_continued
from tests.unit.hora.played import job, json_answer, service_of


@pytest.mark.parametrize("named", ["0job@3", "job:0job@3"])
def test_a_checkpoint_may_be_named_as_in_a_spec(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    service, requests = service_of(json_answer(job(), 201))
    monkeypatch.setattr("hora.connection.connect", lambda: service)
    submit_continued(named, {"epochs": 9}, dry_run=False, wait=False, timeout_s=None, as_json=True)
    assert requests[0].url.path == "/v1/jobs/0job/clone"
    assert json.loads(requests[0].content) == {"epochs": 9, "continue_from": "job:0job@3"}
