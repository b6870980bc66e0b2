"""What a job has used of its slots' time, and what that costs. From the API's JSON of its attempts. Pure."""

from collections.abc import Sequence
from datetime import UTC, datetime

from hora.errors import Json
from hora.render.text import amount
from jobs.model.gpu_time import gpu_time


def usage_rows(attempts: Sequence[Json], now: datetime | None = None) -> dict[str, str | None]:
    """GPU time of all attempts, those of a live one up to now, and their cost. None where an attempt has no price."""
    now = now or datetime.now(UTC)
    held_h = [_held_h(attempt, now) for attempt in attempts]
    prices = [attempt.get("price_per_hour") for attempt in attempts]
    known = [hours * price for hours, price in zip(held_h, prices, strict=True) if price is not None]
    gpu_hours = sum(hours * attempt["gpus"] for hours, attempt in zip(held_h, attempts, strict=True))
    return {
        "GPU time": gpu_time(gpu_hours) if attempts else None,
        "cost": amount(sum(known)) if known and len(known) == len(prices) else None,
    }


def _held_h(attempt: Json, now: datetime) -> float:
    ended_at = attempt.get("ended_at")
    until = now if ended_at is None else datetime.fromisoformat(ended_at)
    return max(0.0, (until - datetime.fromisoformat(attempt["created_at"])).total_seconds() / 3600)
