"""Reads a trace of jobs: a CSV with the columns timestamp, duration and num_gpus, and optionally user and project."""

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from pathlib import Path

from jobs.scheduling.simulation import SimulatedJob

_NEEDED = ("timestamp", "duration", "num_gpus")


class TraceError(Exception):
    """The trace cannot be read. The message says where and why."""


def read_trace(path: Path, *, hosts: int, slots: int, most: int | None = None) -> list[SimulatedJob]:
    """The first `most` jobs of the trace by submission, without those that can never fit on hosts of so many slots.

    A job takes equally many slots on each of its hosts.

    Times become seconds from the first submission. A timestamp is seconds, or a date and time in ISO 8601.
    """
    try:
        with path.open(newline="", encoding="utf-8-sig") as lines:
            rows = list(_rows(csv.DictReader(lines)))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise TraceError(f"--trace: {path} cannot be read: {error}") from error
    jobs = sorted((row for row in rows if _fits(row[2], hosts, slots)), key=lambda row: row[0])[:most]
    if not jobs:
        raise TraceError(f"--trace: {path} has no job that fits on {hosts} hosts of {slots} slots ({len(rows)} rows)")
    first_s = jobs[0][0]
    return [
        SimulatedJob(f"{number:07}", submitted_s - first_s, duration_s, gpus, user, project)
        for number, (submitted_s, duration_s, gpus, user, project) in enumerate(jobs)
    ]


def many_times(jobs: Sequence[SimulatedJob], copies: int) -> list[SimulatedJob]:
    """The jobs so many times, each copy with users of its own.

    A copy begins elsewhere in the trace, and what was before comes at its end. So their bursts do not come together.
    """
    span_s = max((job.submitted_s for job in jobs), default=0.0)
    copied = [
        SimulatedJob(
            f"{copy:05}-{job.job_id}", (job.submitted_s + copy * span_s / copies) % (span_s or 1.0), job.duration_s,
            job.gpus, f"{job.user}{copy}", job.project,
        )
        for copy in range(copies)
        for job in jobs
    ]  # fmt: skip
    return sorted(copied, key=lambda job: job.order)


def _fits(gpus: int, hosts: int, slots: int) -> bool:
    return any(gpus % number == 0 and gpus // number <= slots for number in range(1, min(hosts, gpus) + 1))


def _rows(rows: "csv.DictReader[str]") -> Iterator[tuple[float, float, int, str, str]]:
    missing = [name for name in _NEEDED if name not in (rows.fieldnames or ())]
    if missing:
        raise TraceError(f"--trace: the columns {', '.join(missing)} are missing; it has {rows.fieldnames}")
    for row in rows:
        try:
            yield _row(row)
        except ValueError as error:
            raise TraceError(f"--trace: line {rows.line_num}: {error}") from error


def _row(row: Mapping[str, str | None]) -> tuple[float, float, int, str, str]:
    duration_s, gpus = _number(row, "duration"), _number(row, "num_gpus")
    if duration_s < 0:
        raise ValueError(f"duration is {duration_s:g}; it must not be negative")
    if gpus < 1 or gpus != int(gpus):
        raise ValueError(f"num_gpus is {gpus:g}; it must be a whole number of at least 1")
    return _time_s(row["timestamp"] or ""), duration_s, int(gpus), row.get("user") or "", row.get("project") or ""


def _number(row: Mapping[str, str | None], name: str) -> float:
    text = row[name] or ""
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(f"{name} is {text!r}; it must be a number")
    return value


def _time_s(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise ValueError(f"timestamp is {text!r}; it must be seconds, or like 2017-10-03 14:00:00") from None
