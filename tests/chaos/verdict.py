"""The checks at the end of a round. They look at the api's answers, the rows, the files and the processes.

Each function returns a sentence for each failure.
"""

import math
import re
from collections import defaultdict
from collections.abc import Container, Iterable, Mapping, Sequence
from pathlib import Path

import psycopg

from hora.service import Json, Service
from jobs.model.states import EndReason
from tests.chaos.census import processes_of
from tests.chaos.people import Person

_SAME_WITHIN = 0.02  # the relative difference between losses of one kind; ranks sum in any sequence
_NO_SPACE = re.compile("no space left|errno 28|disk is full", re.IGNORECASE)


def lost_jobs(people: Sequence[Person], jobs: Sequence[Json]) -> list[str]:
    """Jobs that were confirmed but do not exist, and jobs that exist but were never confirmed."""
    existing = {job["id"] for job in jobs}
    confirmed = {person.job_id for person in people}
    return [
        *(f"{person.planned.name} was never confirmed" for person in people if person.job_id is None),
        *(f"job {job_id} was confirmed and is gone" for job_id in confirmed - existing if job_id),
        *(f"job {job_id} exists and was never confirmed" for job_id in existing - confirmed),
    ]


def wrong_status(person: Person, job: Json) -> list[str]:
    """A job whose status is not the one that its person was promised."""
    name, status = person.planned.name, job["status"]
    if person.cancelled:
        expected = "cancelled"
    elif person.stays_paused:
        reason = (job["waiting"] or {}).get("reason")
        is_paused = status == "queued" and job["paused_at"] is not None and reason
        return [] if is_paused or status == "succeeded" else [f"{name} was paused and is {status}, {reason}"]
    else:
        expected = "succeeded"
    if status == expected:
        return []
    return [f"{name} ({job['id']}) is {status}, not {expected}: {job['end_reason']}, {job['error']}"]


def broken_curve(name: str, epochs: int, series: Sequence[Json]) -> list[str]:
    """A loss curve that does not have every epoch exactly once."""
    points = [x for curve in series if curve["rank"] == -1 for x in curve["x"]]
    if points == list(range(1, epochs + 1)):
        return []
    missing = sorted(set(range(1, epochs + 1)) - set(points))
    twice = sorted({x for x in points if points.count(x) > 1})
    return [f"{name}'s curve: epochs {missing} of {epochs} are missing, {twice} are there twice"]


def different_curves(curves: Iterable[tuple[str, tuple[str, int], Sequence[float]]]) -> list[str]:
    """Curves `(name, kind, losses by epoch)` that differ from others of their kind, in the epochs that both have."""
    by_kind = defaultdict(list)
    for name, kind, losses in curves:
        by_kind[kind].append((name, losses))
    sentences = []
    for kind, of_kind in by_kind.items():
        for epoch in range(max(len(losses) for _, losses in of_kind)):
            values = sorted((losses[epoch], name) for name, losses in of_kind if len(losses) > epoch)
            middle = values[len(values) // 2][0]
            sentences += [
                f"{name}'s val_loss after epoch {epoch + 1} is {value:.5f}; that of {kind} is {middle:.5f}"
                for value, name in values
                if not math.isclose(value, middle, rel_tol=_SAME_WITHIN)
            ]
    return sentences


def different_figures(name: str, figures: Mapping[str, object], undisturbed: Mapping[str, object]) -> list[str]:
    """Figures of a job that are not exactly those of a job of its kind that nothing disturbed."""
    differ = [key for key in undisturbed.keys() | figures.keys() if figures.get(key) != undisturbed.get(key)]
    return [
        f"{name}'s {key} is {figures.get(key)}; undisturbed it is {undisturbed.get(key)} ({len(differ)} differ)"
        for key in sorted(differ)[:1]
    ]


def lost_attempts(name: str, job: Json, attempts: Sequence[Json]) -> list[str]:
    """Attempts that are missing, there twice, or without an end."""
    numbers = [attempt["number"] for attempt in attempts]
    sentences = [f"{name}.{attempt['number']} has no end" for attempt in attempts if attempt["ended_at"] is None]
    if numbers != list(range(1, job["attempt"] + 1)):
        sentences.append(f"{name} is at attempt {job['attempt']} and has the attempts {numbers}")
    return sentences


def slots_not_free(hosts: Sequence[Json]) -> list[str]:
    """Slots that are not free."""
    return [
        f"slot {slot['index']} of {host['name']} is {slot['state']} ({slot.get('job_id')})"
        for host in hosts
        for slot in host["slots"]
        if slot["state"] != "free"
    ]


def processes_left(homes: Sequence[Path]) -> list[str]:
    """Processes of jobs that still run."""
    return [f"a process is left: {process}" for process in processes_of(*homes)]


def disk_faults_that_count(name: str, attempts: Sequence[Json]) -> list[str]:
    """Attempts that a full disk ended, and that used up a restart. The disk is the host's fault, not the job's."""
    return [
        f"{name}.{attempt['number']} used up a restart on a full disk: {attempt['end_reason']}, {attempt['error']}"
        for attempt in attempts
        if _NO_SPACE.search(attempt["error"] or "") and EndReason(attempt["end_reason"]).outcome.counts
    ]


def curves_of(client: Service, people: Sequence[Person], jobs: dict[str, Json]) -> list[str]:
    """Broken or different loss curves of the jobs that succeeded."""
    sentences, whole_curves = [], []
    for person in people:
        job = jobs.get(person.job_id or "")
        if job is None or job["status"] != "succeeded":
            continue
        series = client.metrics(job["id"], name="val_loss", axis="epoch")
        broken = broken_curve(person.planned.name, person.planned.spec["epochs"], series)
        sentences += broken
        if not broken:
            whole_curves.append((person.planned.name, person.planned.kind, series[0]["y"]))
    return sentences + (different_curves(whole_curves) if whole_curves else [])


def late_checkpoints(
    runs_dir: Path, connection: psycopg.Connection, undated: Container[tuple[str, int]] = ()
) -> list[str]:
    """Checkpoints that were written after the end of their attempt. The times of `undated` attempts say nothing."""
    ended = connection.execute(
        "SELECT job_id, number, extract(epoch FROM ended_at)::float FROM attempts WHERE ended_at IS NOT NULL"
    ).fetchall()
    return [
        f"{path.relative_to(runs_dir)} was written {path.stat().st_mtime - at:.2f} s after its attempt's end"
        for job_id, number, at in ended
        if (job_id, number) not in undated
        for path in runs_dir.glob(f"{job_id}/checkpoints/attempt-{number}/checkpoint-*")
        if path.stat().st_mtime > at
    ]
