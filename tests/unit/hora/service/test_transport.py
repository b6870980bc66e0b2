"""Which requests are retried, after which pause, and to which address."""

import time
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import httpx2 as httpx
import pytest

from hora.errors import Conflict, HoraError, ProblemError, QuotaExceeded, RateLimited, ServiceUnavailable
from hora.service import Service
from hora.service.transport import LONGEST_PAUSE_S, PAUSES_S
from tests.unit.hora.played import json_answer, service_of

BUSY = {"title": "Too many requests"}


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pause before each retry, in seconds."""
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    return pauses


def test_pauses_between_retries_grow_and_are_random(paused: list[float]) -> None:
    for _ in range(20):
        client, _ = service_of(*3 * [httpx.ConnectError("gone")], json_answer({"id": "a"}))
        client.job("a")
    for number, least in enumerate(PAUSES_S):
        assert all(least <= pause <= 1.5 * least for pause in paused[number::3])
        assert len({*paused[number::3]}) > 1


def test_a_429_is_retried_after_the_time_in_the_answer(paused: list[float]) -> None:
    in_five_s = format_datetime(datetime.now(UTC) + timedelta(seconds=5), usegmt=True)
    refusals = [json_answer(BUSY, 429, **{"Retry-After": after}) for after in ("3", in_five_s, "soon")]
    client, _ = service_of(*refusals, json_answer({"number": 1}, 201))
    assert client.note_study("s", "once") == {"number": 1}  # safe to repeat: a 429 means that nothing was done
    assert 3 <= paused[0] < 4
    assert 3 < paused[1] < 6
    assert paused[2] <= 1.5 * PAUSES_S[2]  # nonsense is ignored


def test_429_answers_that_repeat_or_ask_for_a_long_pause_are_an_error(paused: list[float]) -> None:
    client, requests = service_of(*4 * [json_answer(BUSY, 429, **{"Retry-After": "1"})])
    with pytest.raises(RateLimited) as caught:
        client.job("a")
    assert (len(requests), caught.value.retry_after_s) == (4, 1)
    assert all(pause >= 1 for pause in paused)
    paused.clear()
    wanted = str(int(LONGEST_PAUSE_S) + 1)
    client, requests = service_of(json_answer(BUSY, 429, **{"Retry-After": wanted}))
    with pytest.raises(RateLimited) as caught:
        client.job("a")
    assert (len(requests), paused, caught.value.retry_after_s) == (1, [], float(wanted))


def test_an_internal_error_and_the_question_for_readiness_are_not_sent_again(paused: list[float]) -> None:
    busy = json_answer({}, 503, **{"Retry-After": "2"})
    client, requests = service_of(busy, json_answer({"title": "Internal error"}, 500))
    assert not client.is_ready()
    with pytest.raises(ProblemError, match="Internal error"):
        client.job("a")
    assert (len(requests), paused) == (2, [])


@pytest.mark.parametrize("status", [502, 503, 504])
def test_only_repeatable_requests_are_retried_when_the_service_is_unavailable(status: int, paused: list[float]) -> None:
    client, requests = service_of(json_answer({}, status), json_answer({"id": "a"}))
    assert client.job("a") == {"id": "a"}
    assert len(requests) == 2
    client, requests = service_of(json_answer({}, status), json_answer({"id": "a"}, 201))
    assert client.submit({}) == {"id": "a"}  # safe to repeat: a submission carries a key
    for answer, error in ((json_answer({}, status), ProblemError), (httpx.ReadTimeout("late"), ServiceUnavailable)):
        client, requests = service_of(answer)
        with pytest.raises(error):
            client.note_study("s", "once")
        assert (len(requests), len(paused)) == (1, 2)


def test_what_cannot_be_asked_is_no_address_and_what_cannot_be_sent_is_no_token() -> None:
    for token in ("é", "a b", "a\nb", "\x00"):
        with pytest.raises(HoraError, match=r"^That is not a token\. A token is printable ASCII without blanks\.$"):
            Service("http://hora.test", token)
    for url in ("hora.test", "", "ftp://hora.test", "http://", "http:///v1", "http://a b"):
        with pytest.raises(HoraError, match="is not the address of a service"):
            Service(url, "secret")


def test_token_is_not_sent_to_the_target_of_a_redirect() -> None:
    client, requests = service_of(httpx.Response(307, headers={"Location": "http://elsewhere.test/v1/jobs/a"}))
    with pytest.raises(ServiceUnavailable, match=r"redirects to http://elsewhere\.test/v1/jobs/a"):
        client.job("a")
    assert [request.url.host for request in requests] == ["hora.test"]


def test_quota_conflict_raises_quota_exceeded() -> None:
    quota = {"type": "urn:hora:problem:quota-exceeded", "title": "Queue full", "detail": "9 of 9"}
    client, _ = service_of(json_answer(quota, 409))
    with pytest.raises(QuotaExceeded, match="Queue full: 9 of 9"):
        client.submit({})
    client, _ = service_of(json_answer({"type": "urn:hora:problem:job-ended", "title": "Job ended"}, 409))
    with pytest.raises(Conflict) as caught:
        client.pause("a")
    assert not isinstance(caught.value, QuotaExceeded)


@pytest.mark.parametrize(("url", "needed"), [("http://hora.test", False), ("HTTP://x", False), ("HTTPS://x", True)])
def test_certificates_are_loaded_only_for_https(url: str, needed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[bool] = []
    monkeypatch.setattr(httpx, "Client", lambda **options: requests.append(options["verify"]))
    Service(url)
    assert requests == [needed]
