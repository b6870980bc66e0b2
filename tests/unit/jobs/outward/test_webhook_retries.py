"""What the answer to a delivery means, and when the delivery is tried again."""

from datetime import UTC, datetime

import pytest

from jobs.outward.webhooks.retries import MAX_TRIES, Answer, Verdict, pause_s, verdict_of

NOW = datetime(2030, 1, 1, 12, tzinfo=UTC)


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        *((Answer(status), Verdict.DELIVERED) for status in (200, 201, 204, 299)),
        *((Answer(status), Verdict.AGAIN) for status in (408, 425, 429, 500, 502, 503, 599)),
        *((Answer(status), Verdict.FAILED) for status in (301, 302, 307, 308, 400, 401, 403, 404, 422)),
        (Answer(410), Verdict.GONE),
        (Answer(None, "refused"), Verdict.AGAIN),
        (Answer(None, "inside", hopeless=True), Verdict.FAILED),
    ],
)
def test_each_answer_of_a_receiver_has_a_verdict(answer: Answer, verdict: Verdict) -> None:
    assert verdict_of(answer, 1) is verdict


def test_delivery_fails_after_the_last_try() -> None:
    assert verdict_of(Answer(503), MAX_TRIES - 1) is Verdict.AGAIN
    assert verdict_of(Answer(503), MAX_TRIES) is Verdict.FAILED
    assert verdict_of(Answer(204), MAX_TRIES) is Verdict.DELIVERED


def pause(tries: int, *, jitter: float = 0, retry_after: str | None = None) -> float:
    return pause_s(tries, jitter=jitter, retry_after=retry_after, now=NOW)


def test_pauses_double_up_to_an_hour_and_the_last_try_is_about_a_day_after_the_first() -> None:
    pauses = [pause(tries) for tries in range(1, MAX_TRIES)]
    assert pauses[:5] == [1, 2, 4, 8, 16]
    assert max(pauses) == pauses[-1] == 3600
    assert 22 < sum(pauses) / 3600 < 26
    assert pause(3, jitter=1) == 5
    assert pause(10**6) == 3600


@pytest.mark.parametrize(
    ("retry_after", "expected"),
    [
        ("30", 30), (" 30 ", 30), ("0", 1), ("999999999999", 86_400),
        ("Tue, 01 Jan 2030 12:01:00 GMT", 60), ("Tue, 01 Jan 2030 11:00:00 GMT", 1),
        ("", 1), ("soon", 1), ("-5", 1), ("٣", 1), (None, 1),
    ],
)  # fmt: skip
def test_a_receiver_may_ask_for_a_longer_pause(retry_after: str | None, expected: float) -> None:
    assert pause(1, retry_after=retry_after) == expected
