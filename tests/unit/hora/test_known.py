"""What `hora show` fetches of a job."""

import httpx2 as httpx
import pytest

from hora.cli.job_details import Known, all_about
from hora.service import NotFound, Service

ATTEMPTS = {"items": [{"number": 1}, {"number": 2}], "next_cursor": None}
ANSWERS = {"": {"id": "x"}, "/attempts": ATTEMPTS, "/analysis": {"findings": []}, "/advice": {"items": [{"number": 1}]}}


def known(*absent: str, status: int = 500) -> Known:
    """What is known where the service cannot tell some of it."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/v1/jobs/x")
        if name in absent:
            return httpx.Response(status, json={"title": "No", "detail": "not today"})
        return httpx.Response(200, json=ANSWERS[name])

    with Service("http://hora.test", transport=httpx.MockTransport(answer)) as client:
        return all_about(client, "x")


def test_a_job_is_known_with_all_that_belongs_to_it() -> None:
    assert known() == Known({"id": "x"}, {"number": 2}, {"findings": []}, [{"number": 1}], [])


def test_what_cannot_be_had_is_told_and_the_rest_is_shown() -> None:
    found = known("/analysis", "/advice")
    assert (found.job, found.analysis, found.advice) == ({"id": "x"}, None, [])
    assert sorted(found.missing) == [
        "The advice cannot be had: No: not today",
        "The analysis cannot be had: No: not today",
    ]


def test_a_job_that_is_not_there_is_an_error() -> None:
    with pytest.raises(NotFound):
        known("", "/attempts", "/analysis", "/advice", status=404)
