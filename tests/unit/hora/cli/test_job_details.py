"""What `hora show` fetches of a job."""

import httpx2 as httpx
import pytest

from hora.cli.job_details import JobDetails, fetch_details
from hora.service import NotFound, Service

SECOND = {"number": 2, "shares": [{"host": "ha", "slots": [0]}, {"host": "gone", "slots": [0]}]}
ATTEMPTS = {"items": [{"number": 1}, SECOND], "next_cursor": None}
HOST = {"name": "ha", "slots": []}
ANSWERS = {"": {"id": "x"}, "/attempts": ATTEMPTS, "/analysis": {"findings": []}, "/advice": {"items": [{"number": 1}]}}


def details(*absent: str, status: int = 500) -> JobDetails:
    """The details of a job when the service fails for the paths in `absent`."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/v1/jobs/x")
        if name.startswith("/v1/hosts/"):
            is_there = name == "/v1/hosts/ha"
            return httpx.Response(200, json=HOST) if is_there else httpx.Response(404, json={"title": "No"})
        if name in absent:
            return httpx.Response(status, json={"title": "No", "detail": "not today"})
        return httpx.Response(200, json=ANSWERS[name])

    with Service("http://hora.test", transport=httpx.MockTransport(answer)) as client:
        return fetch_details(client, "x")


def test_details_hold_the_job_its_newest_attempt_with_its_hosts_its_analysis_and_its_advice() -> None:
    assert details() == JobDetails({"id": "x"}, [{"number": 1}, SECOND], [HOST], {"findings": []}, [{"number": 1}], [])


def test_an_unavailable_part_is_named_and_the_rest_is_shown() -> None:
    found = details("/analysis", "/advice")
    assert (found.job, found.analysis, found.advice) == ({"id": "x"}, None, [])
    assert sorted(found.missing) == [f"The {part} is not available: No: not today" for part in ("advice", "analysis")]
    with pytest.raises(NotFound):
        details("", "/attempts", "/analysis", "/advice", status=404)
