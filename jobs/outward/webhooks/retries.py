"""Decides whether and when to send a delivery again, by its answer. Pure; used by `jobs.outward.webhooks.outbox`."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum

MAX_TRIES = 35  # the last try is about a day after the first
_FIRST_PAUSE_S = 1.0
_LONGEST_PAUSE_S = 3600.0
_LONGEST_RETRY_AFTER_S = 86_400.0  # a receiver may ask for at most this
_TRANSIENT = frozenset({408, 425, 429})


@dataclass(frozen=True)
class Answer:
    """The result of sending: the receiver's status, or why there is none."""

    status_code: int | None
    error: str | None = None  # a sentence without secrets
    retry_after: str | None = None
    hopeless: bool = False  # another try cannot succeed
    again: bool = False  # another try may succeed, although the status is no such one of HTTP
    gone: bool = False  # neither can any other message
    text: str = ""  # the beginning of what the receiver said: it is read, and not stored


class Verdict(StrEnum):
    """What an answer means for the delivery."""

    DELIVERED = "delivered"
    AGAIN = "again"
    FAILED = "failed"
    GONE = "gone"  # the receiver wants no more messages


def verdict_of(answer: Answer, tries: int) -> Verdict:
    """What the answer to a try means. `tries` counts from 1."""
    status = answer.status_code
    if answer.gone or status == 410:
        return Verdict.GONE
    if status is not None and 200 <= status < 300:
        return Verdict.DELIVERED
    is_refusal = status is not None and status < 500 and status not in _TRANSIENT
    is_final = answer.hopeless or (is_refusal and not answer.again)
    return Verdict.FAILED if is_final or tries >= MAX_TRIES else Verdict.AGAIN


def pause_s(tries: int, *, jitter: float, retry_after: str | None, now: datetime) -> float:
    """Seconds until the next try: 1, 2, 4, ... 3600, and up to a quarter more by `jitter` (0 to 1).

    A receiver may ask for more.
    """
    doubled: float = _FIRST_PAUSE_S * 2 ** min(tries - 1, 20)
    usual_s = min(doubled, _LONGEST_PAUSE_S) * (1 + jitter / 4)
    return max(usual_s, min(_retry_after_s(retry_after, now), _LONGEST_RETRY_AFTER_S))


def _retry_after_s(retry_after: str | None, now: datetime) -> float:
    """The seconds that Retry-After asks for, as a number or a date."""
    text = (retry_after or "").strip()
    if text.isascii() and text.isdecimal():
        return float(text[:9])
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):  # missing or invalid
        return 0
    at = at.replace(tzinfo=at.tzinfo or UTC)
    return max((at - now) / timedelta(seconds=1), 0)
