"""What the command line shows of jobs and hosts: tables and lines, from the API's JSON. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from rich.table import Table
from rich.text import Text

from hora.client import Json

STATUS_STYLE = {
    "queued": "yellow",
    "launching": "cyan",
    "running": "bold cyan",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "magenta",
}
_PHASES = ("import", "connect", "data", "build", "restore", "first_step")


@dataclass(frozen=True)
class Finding:
    """What one check of `hora doctor` found. `advice` is what to do about it."""

    check: str
    level: Literal["ok", "warn", "fail"]
    found: str
    advice: str = ""


_CONTROL = dict.fromkeys((*range(9), *range(10, 32), *range(127, 160)), "�")


def plain(value: object) -> str:
    """Text from elsewhere without control characters, so that it cannot drive the terminal."""
    return str(value).translate(_CONTROL)


def number(value: float | None, digits: int = 4) -> str:
    """A figure for a person; a dash for none."""
    return "-" if value is None else f"{value:.{digits}f}"


def count(value: float | None) -> str:
    """A large figure with its thousands apart."""
    return "-" if value is None else f"{value:,.0f}"


def percent(share: float) -> str:
    """A share of 0 to 1 as a person reads it."""
    return f"{100 * share:.0f} %"


def duration(seconds: float | None) -> str:
    """Seconds as a person says them: 4.2 s, 3 min 05 s, 2 h 07 min."""
    if seconds is None:
        return "-"
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes} min {rest:02d} s"
    return f"{minutes // 60} h {minutes % 60:02d} min"


def ago(time_text: str | None, now: datetime | None = None) -> str:
    """How long ago a time of the API was."""
    if time_text is None:
        return "-"
    passed = (now or datetime.now(UTC)) - datetime.fromisoformat(time_text)
    return f"{duration(max(passed.total_seconds(), 0))} ago"


def status(job: Json) -> Text:
    """The status in its colour, with the reason of an end that was none of the plain ones."""
    name, reason = plain(job["status"]), job.get("end_reason")
    told = f"{name} ({plain(reason)})" if reason and reason not in ("completed", "cancelled") else name
    return Text(told, style=STATUS_STYLE.get(name, ""))


def jobs_table(jobs: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a job."""
    table = _table("ID", "NAME", "STATUS", "GPUS>", "EPOCH>", "VAL ACCURACY>", "SAMPLES/S>", "SUBMITTED")
    for job in jobs:
        progress, summary = job.get("progress") or {}, job.get("summary") or {}
        metrics = progress.get("metrics") or {}
        epoch = f"{progress.get('epoch', 0)}/{progress.get('epochs') or '?'}" if job.get("attempt") else "-"
        table.add_row(
            plain(job["id"]),
            plain(job["name"]),
            status(job),
            str(job["gpus"]),
            epoch,
            number(summary.get("val_accuracy", metrics.get("val_accuracy"))),
            count(summary.get("train_samples_per_s", progress.get("samples_per_s"))),
            ago(job.get("created_at"), now),
        )
    return table


def job_details(
    job: Json, now: datetime | None = None, *, setup: Mapping[str, float] | None = None, epochs: Iterable[Json] = ()
) -> Table:
    """Everything about one job that a person asks for first.

    `setup` is that of its newest attempt, `epochs` are its series with one point an epoch.
    """
    plan, progress = job.get("plan") or {}, job.get("progress") or {}
    spec = job.get("spec") or {}
    rows: dict[str, object] = {
        "id": plain(job["id"]),
        "name": plain(job["name"]),
        "status": status(job),
        "error": plain(job["error"]) if job.get("error") else None,
        "dataset": plain((spec.get("dataset") or {}).get("source", "-")),
        **_data(job.get("dataset")),
        "model": plain((spec.get("model") or {}).get("name", "-")),
        "gpus": job["gpus"],
        "attempt": job.get("attempt") or None,
        "batch": f"{plan.get('per_gpu_batch')} per GPU, {plan.get('global_batch')} in all" if plan else None,
        "learning rate": plan.get("learning_rate"),
        "samples": f"{count(plan['train_samples'])} train, {count(plan.get('validation_samples'))} validation"
        if plan.get("train_samples")
        else None,
        "set-up": _setup(setup or {}),
        "waiting": waiting(epochs, plan),
        "submitted": ago(job.get("created_at"), now),
        "started": ago(job["started_at"], now) if job.get("started_at") else None,
        "ended": ago(job["ended_at"], now) if job.get("ended_at") else None,
    }
    if job.get("attempt") and not job.get("summary"):
        rows["progress"] = progress_line(progress)
    return _facts({**rows, **_results(job)})


def results_table(job: Json, address: str) -> Table:
    """What a job came to, and where the service has the rest."""
    head: dict[str, object] = {"status": status(job), "error": plain(job["error"]) if job.get("error") else None}
    table = _facts({**head, **_results(job), "address": address})
    table.title = f"Job {plain(job['id'])} ({plain(job['name'])})"
    table.title_justify = "left"
    return table


def _results(job: Json) -> dict[str, object]:
    summary = job.get("summary")
    if not summary:
        return {}
    epochs = (job.get("plan") or {}).get("epochs")
    stopped = ", stopped early" if summary.get("stopped_early") else ""
    after_best = summary.get("after_best_share")
    return {
        "best epoch": f"{summary.get('best_epoch')}, with {percent(after_best)} of the time after it"
        if after_best
        else summary.get("best_epoch"),
        "val accuracy": number(summary.get("val_accuracy")),
        "val loss": number(summary.get("val_loss")),
        "test accuracy": number(summary["test_accuracy"]) if summary.get("test_accuracy") is not None else None,
        "samples/s": count(summary.get("train_samples_per_s")),
        "training time": duration(summary.get("wall_s")),
        "epochs run": f"{summary.get('epochs_run')} of {epochs}{stopped}" if epochs else summary.get("epochs_run"),
    }


def _data(dataset: Json | None, *, most: int = 5) -> dict[str, object]:
    """What the data turned out to be."""
    if not dataset:
        return {}
    classes = [plain(name) for name in dataset.get("classes") or []]
    named = ", ".join(classes[:most]) + (", ..." if len(classes) > most else "")
    shape = "x".join(map(str, dataset["shape"]))
    damaged = dataset.get("damaged")
    files = ", ".join(plain(name) for name in dataset["damaged_files"][:most])
    return {
        "data": f"{plain(dataset['format'])}, {shape}, {len(classes)} classes: {named}",
        "damaged": f"{count(damaged)} left out: {files}" if damaged else None,
    }


def _setup(phases: Mapping[str, float]) -> str | None:
    """How long each part of the set-up took, in the order in which they come."""
    names = sorted(phases, key=lambda name: _PHASES.index(name) if name in _PHASES else len(_PHASES))
    return ", ".join(f"{plain(name).replace('_', ' ')} {duration(phases[name])}" for name in names) or None


def waiting(epochs: Iterable[Json], plan: Json) -> str | None:
    """Which shares of their steps the ranks waited for data and for each other; None where that is not known."""
    over_all = {one["name"]: dict(zip(one["x"], one["y"], strict=True)) for one in epochs if one["rank"] < 0}
    speeds = over_all.get("samples_per_s", {})
    samples = (plan.get("steps_per_epoch") or 0) * (plan.get("global_batch") or 0)
    step_s = {epoch: samples / speed for epoch, speed in speeds.items() if speed}
    told = []
    for name, what in (("data_wait_s", "for data"), ("allreduce_s", "in allreduce")):
        known = {epoch: wait for epoch, wait in over_all.get(name, {}).items() if wait is not None and epoch in step_s}
        total_s = sum(step_s[epoch] for epoch in known)
        if total_s:
            told.append(f"{what} {percent(sum(known.values()) / total_s)}")
    return f"{', '.join(told)} of the step time" if told else None


def progress_line(progress: Mapping[str, Any]) -> str:
    """Progress in one line: epoch 3/30  step 120/1400  5,210 samples/s  val_accuracy 0.9312  ETA 12.0 s."""
    metrics = progress.get("metrics") or {}
    name = "val_accuracy" if "val_accuracy" in metrics else "accuracy"
    steps = f"/{progress['steps']}" if progress.get("steps") else ""
    parts = [
        f"epoch {progress.get('epoch', 0)}/{progress.get('epochs') or '?'}",
        f"step {progress.get('step', 0)}{steps}",
        f"{count(progress['samples_per_s'])} samples/s" if progress.get("samples_per_s") is not None else "",
        f"{name} {number(metrics[name])}" if metrics.get(name) is not None else "",
        f"ETA {duration(progress['eta_s'])}" if progress.get("eta_s") is not None else "",
    ]
    return "  ".join(part for part in parts if part)


def epoch_line(data: Mapping[str, Any], epochs: int | None) -> str:
    """One epoch's figures in one line."""
    metrics = [name for name in data if name.removeprefix("val_") in ("loss", "accuracy")]
    metrics.sort(key=lambda name: (name.startswith("val_"), name not in {"loss", "val_loss"}))
    parts = [f"epoch {data.get('epoch')}/{epochs or '?'}", *(f"{name} {number(data[name])}" for name in metrics)]
    if data.get("samples_per_s") is not None:
        parts.append(f"{count(data['samples_per_s'])} samples/s")
    return "  ".join(parts)


def hosts_table(hosts: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a host."""
    table = _table("HOST", "ALIVE", "SLOTS>", "FREE>", "KIND", "SEEN", "DEVICES")
    for host in hosts:
        slots = host.get("slots") or []
        alive = bool(host.get("alive"))
        table.add_row(
            plain(host["name"]),
            Text("yes" if alive else "no", style="green" if alive else "bold red"),
            str(len(slots)),
            str(sum(is_free(slot) for slot in slots) if alive else 0),
            plain(", ".join(sorted({slot["kind"] for slot in slots})) or "-"),
            ago(host.get("heartbeat_at"), now),
            plain(", ".join(sorted({str(slot.get("name")) for slot in slots})) or "-"),
        )
    return table


def findings_table(findings: Iterable[Finding]) -> Table:
    """One line a check of `hora doctor`."""
    table = _table("CHECK", "", "FOUND", "WHAT TO DO")
    for one in findings:
        style = {"ok": "green", "warn": "yellow", "fail": "bold red"}[one.level]
        table.add_row(one.check, Text(one.level, style=style), plain(one.found), one.advice)
    return table


def is_free(slot: Json) -> bool:
    """Whether a job can be placed on the slot."""
    return slot.get("state") == "free"


def _table(*columns: str) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column.rstrip(">"), justify="right" if column.endswith(">") else "left", overflow="fold")
    return table


def _facts(rows: Mapping[str, object]) -> Table:
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    for name, value in rows.items():
        if value is not None:
            table.add_row(name, value if isinstance(value, Text) else Text(str(value)))
    return table
