"""What is sent again, when, and where to."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2 as httpx
import pytest

from hora.errors import Conflict, ProblemError, QuotaExceeded, RateLimited, ServiceUnavailable
from hora.service import Service
from hora.service.transport import LONGEST_PAUSE_S, PAUSES_S
from tests.unit.hora.played import in_turn, json_answer

BUSY = {"title": "Too many requests"}


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """How long it was waited before each further sending."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def service(*answers: httpx.Response | Exception) -> tuple[Service, list[httpx.Request]]:
    transport, requests = in_turn(*answers)
    return Service("http://hora.test", "secret", transport=transport), requests


def test_pauses_grow_and_differ_by_chance(paused: list[float]) -> None:
    for _ in range(20):
        client, _ = service(*3 * [httpx.ConnectError("gone")], json_answer({"id": "a"}))
        client.job("a")
    for number, least in enumerate(PAUSES_S):
        taken = paused[number::3]
        assert all(least <= pause <= 1.5 * least for pause in taken)
        assert len({*taken}) > 1


def test_a_429_is_retried_after_the_time_in_the_answer(paused: list[float]) -> None:
    client, requests = service(json_answer(BUSY, 429, **{"Retry-After": "3"}), json_answer({"number": 1}, 201))
    assert client.note_study("s", "once") == {"number": 1}  # nothing was done, so it is safe
    assert len(requests) == 2
    assert 3 <= paused[0] < 4


def test_repeated_429_answers_end_in_an_error(paused: list[float]) -> None:
    client, requests = service(*4 * [json_answer(BUSY, 429, **{"Retry-After": "1"})])
    with pytest.raises(RateLimited) as caught:
        client.job("a")
    assert (len(requests), caught.value.retry_after_s) == (4, 1)
    assert all(pause >= 1 for pause in paused)


def test_a_long_retry_after_is_an_error_at_once(paused: list[float]) -> None:
    wanted = str(int(LONGEST_PAUSE_S) + 1)
    client, requests = service(json_answer(BUSY, 429, **{"Retry-After": wanted}))
    with pytest.raises(RateLimited) as caught:
        client.job("a")
    assert (len(requests), paused, caught.value.retry_after_s) == (1, [], float(wanted))


def test_when_to_ask_again_may_be_a_date_or_nonsense(paused: list[float]) -> None:
    in_five_s = format_datetime(datetime.now(UTC) + timedelta(seconds=5), usegmt=True)
    client, _ = service(
        json_answer(BUSY, 429, **{"Retry-After": in_five_s}),
        json_answer(BUSY, 429, **{"Retry-After": "soon"}),
        json_answer({"id": "a"}),
    )
    client.job("a")
    assert 3 < paused[0] < 6
    assert paused[1] <= 1.5 * PAUSES_S[1]


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_service_that_is_away_is_asked_again_only_where_that_is_safe(status: int, paused: list[float]) -> None:
    client, requests = service(json_answer({}, status), json_answer({"id": "a"}))
    assert client.job("a") == {"id": "a"}
    assert len(requests) == 2
    client, requests = service(json_answer({}, status), json_answer({"id": "a"}, 201))
    assert client.submit({}) == {"id": "a"}  # which carries a key
    client, requests = service(json_answer({}, status))
    with pytest.raises(ProblemError):
        client.note_study("s", "once")
    assert (len(requests), len(paused)) == (1, 2)


def test_readiness_is_asked_once(paused: list[float]) -> None:
    client, requests = service(json_answer({}, 503, **{"Retry-After": "2"}))
    assert not client.is_ready()
    assert (len(requests), paused) == (1, [])


def test_a_failure_of_the_service_is_not_asked_for_again(paused: list[float]) -> None:
    client, requests = service(json_answer({"title": "Internal error"}, 500))
    with pytest.raises(ProblemError, match="Internal error"):
        client.job("a")
    assert (len(requests), paused) == (1, [])


def test_the_token_is_carried_to_no_other_address() -> None:
    client, requests = service(httpx.Response(307, headers={"Location": "http://elsewhere.test/v1/jobs/a"}))
    with pytest.raises(ServiceUnavailable, match=r"redirects to http://elsewhere\.test/v1/jobs/a"):
        client.job("a")
    assert [request.url.host for request in requests] == ["hora.test"]


def test_a_conflict_over_a_quota_has_an_error_of_its_own() -> None:
    quota = {"type": "urn:hora:problem:quota-exceeded", "title": "Queue full", "detail": "9 of 9"}
    client, _ = service(json_answer(quota, 409))
    with pytest.raises(QuotaExceeded, match="Queue full: 9 of 9"):
        client.submit({})
    client, _ = service(json_answer({"type": "urn:hora:problem:job-ended", "title": "Job ended"}, 409))
    with pytest.raises(Conflict) as caught:
        client.pause("a")
    assert not isinstance(caught.value, QuotaExceeded)


@pytest.mark.parametrize(("url", "needed"), [("http://hora.test", False), ("HTTP://x", False), ("HTTPS://x", True)])
def test_certificates_are_loaded_unless_the_address_needs_none(
    url: str, needed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests: list[bool] = []
    monkeypatch.setattr(httpx, "Client", lambda **options: requests.append(options["verify"]))
    Service(url)
    assert requests == [needed]
