"""What the command line shows of a batch probe, from the API's JSON. Pure."""

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from hora.errors import Json
from hora.render.text import count, number, percent, plain

Rows = dict[str, object]

_HEAD = ("per GPU", "in all", "samples/s", "ms/step", "data wait", "allreduce", "memory")
_END = {
    "largest": "it is the largest that was to be tried",
    "memory": "the next one does not fit the memory",
    "data": "the next one is larger than the training data",
    "time": "a step takes longer than probe.seconds",
}


def probe_rows(job: Json, arguments: Sequence[str] | None = None) -> Rows:
    """What a probe found, and the command that trains with it: with these arguments, or as a clone of the probe."""
    probe = job.get("probe") or {}
    points = probe.get("points") or []
    rows: Rows = {"batches": "\n".join(points_lines(points)) if points else None}
    if probe.get("ended_by") is None:
        return rows
    largest = probe.get("largest_batch")
    rows |= {
        "largest": f"{largest} per GPU: {_END[probe['ended_by']]}" if largest else None,
        "knee": f"{probe['knee_batch']} per GPU" if probe.get("knee_batch") else None,
        "why": plain(probe["why"]) if probe.get("why") else None,
    }
    if probe.get("batch_size") is not None:
        rows["proposal"] = f"batch_size {probe['batch_size']}, learning_rate {probe['learning_rate']:g}"
        rows["train so"] = f"hora {_training(job, arguments)} {_settings(probe)}"
    return rows


def points_lines(points: Sequence[Json]) -> list[str]:
    """The points as a table, in plain text."""
    rows = [_HEAD, *map(_cells, points)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEAD))]
    return ["  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _cells(point: Json) -> tuple[str, ...]:
    batch, global_batch = str(point["per_gpu_batch"]), str(point["global_batch"])
    step_s, wait_s, memory = point.get("step_time_s"), point.get("data_wait_s") or 0.0, point.get("memory_bytes")
    if not point["fits"] or not step_s:
        return (batch, global_batch, "no memory", "", "", "", "")
    return (
        batch,
        global_batch,
        count(point.get("samples_per_s")),
        number(1000 * step_s, 2),
        percent(wait_s / (wait_s + step_s)),
        "-" if (allreduce_s := point.get("allreduce_s")) is None else percent(allreduce_s / (wait_s + step_s)),
        "-" if memory is None else f"{memory / 1e6:,.0f} MB",
    )


def point_line(point: Json) -> str:
    """One batch in one line."""
    who = f"batch {point['per_gpu_batch']} per GPU, {point['global_batch']} in all"
    if not point["fits"] or not point.get("step_time_s"):
        return f"{who}: does not fit the memory"
    return f"{who}: {count(point['samples_per_s'])} samples/s, {number(1000 * point['step_time_s'], 2)} ms a step"


def probe_progress(progress: Mapping[str, Any], points: Sequence[Json] = ()) -> str:
    """How far a probe is, in one line: 3/10 batches  now 64 per GPU  best 32: 5,210 samples/s.

    Without its points it says the speed of the last batch.
    """
    now, speed = progress.get("per_gpu_batch"), progress.get("samples_per_s")
    best = max((point for point in points if point.get("samples_per_s")), key=_speed, default=None)
    parts = [
        f"{progress.get('step', 0)}/{progress.get('steps') or '?'} batches",
        f"now {now} per GPU" if now else "",
        f"best {best['per_gpu_batch']}: {count(_speed(best))} samples/s" if best else "",
        f"{count(speed)} samples/s" if speed is not None and not best else "",
    ]
    return "  ".join(part for part in parts if part)


def _speed(point: Json) -> float:
    return float(point["samples_per_s"])


def _training(job: Json, arguments: Sequence[str] | None) -> str:
    if arguments is None:
        return f"clone {plain(job['id'])} --set probe=null"
    return f"submit {shlex.join(arguments)}"


def _settings(probe: Json) -> str:
    return f"--set batch_size={probe['batch_size']} --set learning_rate={probe['learning_rate']:g}"
