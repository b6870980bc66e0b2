"""Jobs that continue others, as the command line submits them."""

import json

import httpx2 as httpx
import pytest

from hora.cli.submitting import submit_continued
from hora.service import Service
from tests.unit.hora.played import in_turn, job


@pytest.mark.parametrize("named", ["0job@3", "job:0job@3"])
def test_a_checkpoint_may_be_named_as_in_a_spec(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    transport, requests = in_turn(httpx.Response(201, json=job()))
    monkeypatch.setattr("hora.connection.connect", lambda: Service("http://hora.test", transport=transport))
    submit_continued(named, {"epochs": 9}, dry_run=False, wait=False, timeout_s=None, as_json=True)
    assert requests[0].url.path == "/v1/jobs/0job/clone"
    assert json.loads(requests[0].content) == {"epochs": 9, "continue_from": "job:0job@3"}
