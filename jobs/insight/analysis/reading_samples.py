"""Reads the samples of an attempt's slots as arrays. Called by `reading`."""

from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, Float, Row, cast, func, literal, select
from sqlalchemy.orm import Session

from jobs.db.tables import Job, Sample
from jobs.insight.analysis.evidence import Run, SlotSamples
from jobs.insight.analysis.points import as_bytes
from jobs.telemetry.blocks import EPOCH_OF_TIMES, floats, integers, seconds_since

_NEWEST = timedelta(hours=24)
_POSIX_S = EPOCH_OF_TIMES.timestamp()
# NVML's bits of why the clock is lower than it could be (nvmlClocksEventReasons), without those for an idle GPU and for
# a clock that somebody set.
THROTTLE = {"thermal": 0x20 | 0x40, "power": 0x4 | 0x80, "hardware": 0x8}
_SLOWED = sum(THROTTLE.values())


def samples_of(session: Session, job: Job, run: Run) -> list[SlotSamples]:
    """The samples of each slot from the attempt's first step to its end, at most the newest day.

    Slots without utilization are left out.
    """
    start = datetime.fromtimestamp(run.epochs[0].first_ended_at, UTC)
    end = datetime.fromtimestamp(run.ended_at, UTC)
    key = (Sample.rank, Sample.host, Sample.slot)
    slowed = Sample.gpu_throttle.op("&")(_SLOWED) != 0
    query = (
        select(
            *key,
            as_bytes(Sample.at, "timestamptz_send", Sample.at).label("times"),
            _numbers(Sample.gpu_percent).label("gpu"),
            _numbers(Sample.cpu_percent).label("cpu"),
            func.max(Sample.gpu_memory_bytes).label("gpu_memory"),
            func.max(Sample.memory_bytes).label("memory"),
            func.max(Sample.gpu_sm_clock_mhz).label("greatest_clock"),
            func.avg(Sample.gpu_sm_clock_mhz).filter(slowed).label("slowed_clock"),
            *(
                func.count().filter(Sample.gpu_throttle.op("&")(bits) != 0).label(reason)
                for reason, bits in THROTTLE.items()
            ),
        )
        .where(Sample.job_id == job.id, Sample.attempt == run.number)
        .where(Sample.at.between(max(start, end - _NEWEST), end))
        .group_by(*key)
        .order_by(*key)
    )
    slots = (_slot(run.number, row) for row in session.execute(query, execution_options={"yield_per": 1}))
    return [slot for slot in slots if slot is not None]


def _numbers(column: Any) -> ColumnElement[bytes]:
    return as_bytes(func.coalesce(cast(column, Float(53)), literal("NaN").cast(Float(53))), "float8send", Sample.at)


def _slot(attempt: int, row: Row[Any]) -> SlotSamples | None:
    at = seconds_since(EPOCH_OF_TIMES, integers(row.times)) + _POSIX_S
    for metric, data in (("gpu_percent", row.gpu), ("cpu_percent", row.cpu)):
        busy = floats(data)
        is_number = busy == busy  # not NaN  # noqa: PLR0124
        if is_number.any():
            return SlotSamples(
                attempt=attempt, rank=row.rank, host=row.host, slot=row.slot,
                metric=metric, at=at[is_number], busy=busy[is_number],
                gpu_memory_bytes=row.gpu_memory, memory_bytes=row.memory,
                throttle={reason: getattr(row, reason) for reason in THROTTLE},
                greatest_clock_mhz=row.greatest_clock, throttled_clock_mhz=row.slowed_clock,
            )  # fmt: skip
    return None
