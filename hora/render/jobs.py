"""What the command line shows of jobs: tables and lines, from the API's JSON. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.alerts import alerts_text
from hora.render.copies import behind_text
from hora.render.idle import idle_text
from hora.render.metrics import (
    ACCURACY,
    best_of,
    goal_of,
    goal_value,
    metric,
    metric_rows,
    names_of_epoch,
    present_goal,
)
from hora.render.notes import first_lines
from hora.render.places import place_in_study
from hora.render.probe import probe_progress, probe_rows
from hora.render.specs import batch_text, what_runs
from hora.render.tables import facts, table_of
from hora.render.text import (
    ago,
    count,
    duration,
    heading,
    number,
    ordinal,
    percent,
    plain,
    ranges,
)
from jobs.runtime.files import size_text

STATUS_STYLE = {
    "queued": "yellow",
    "launching": "cyan",
    "running": "bold cyan",
    "succeeded": "green",
    "failed": "bold red",
    "cancelled": "magenta",
}
_CPU = "cpu"  # the device of a CPU slot; that of a GPU is its model
_PHASES = ("import", "connect", "data", "build", "restore", "first_step")


def status(job: Json) -> Text:
    """The status in its colour, with the reason of an unusual end."""
    name, reason = plain(job["status"]), job.get("end_reason")
    if job.get("paused_at") and not job.get("ended_at"):
        reason = "paused" if name == "queued" else "pausing"
    words = f"{name} ({plain(reason)})" if reason and reason not in ("completed", "cancelled") else name
    return Text(words, style=STATUS_STYLE.get(name, ""))


def why(job: Json) -> dict[str, object]:
    """Why a job failed, and what to do about it. Empty if there is nothing to do."""
    remedy, error = job.get("remedy"), job.get("error") or (job.get("cause") if job["status"] == "failed" else None)
    return {"error": plain(error) if error else None, "what to do": plain(remedy) if remedy else None}


def standing(job: Json) -> str | None:
    """Where a queued job stands, and why it waits: 3rd: needs 4 slots on one host; best host has 2 free."""
    waiting = job.get("waiting")
    if not waiting or job.get("paused_at"):  # the status says so
        return None
    position = waiting.get("position")
    return f"{ordinal(position)}: {plain(waiting['reason'])}" if position else plain(waiting["reason"])


def expected_start(job: Json) -> str | None:
    """In what time a queued job is expected to start: in about 12 min."""
    in_s = (job.get("waiting") or {}).get("starts_in_s")
    if in_s is None or job.get("paused_at"):
        return None
    return f"in about {duration(in_s)}" if in_s else "soon"


def slots(attempt: Json) -> str | None:
    """The slots of an attempt on each of its hosts: ha 0-3, hb 0 2."""
    hosts = [f"{plain(share['host'])} {ranges(share['slots'])}" for share in attempt.get("shares") or []]
    return ", ".join(hosts) or None


def devices(attempt: Json | None, hosts: Sequence[Json]) -> str | None:
    """The devices of an attempt, and why its hosts offer no GPUs: 2 GPUs: NVIDIA H200. None if they are not known."""
    held = [device for share in (attempt or {}).get("shares") or [] for device in share.get("devices") or []]
    if not held:
        return None
    models = sorted({plain(device) for device in held} - {_CPU})
    if models:
        return f"{len(held)} GPU{'s' if len(held) > 1 else ''}: {', '.join(models)}"
    problems = {plain(host["info"]["device_problem"]) for host in hosts if host["info"].get("device_problem")}
    return "\n".join([f"{len(held)} CPU slot{'s' if len(held) > 1 else ''}", *sorted(problems)])


def jobs_table(jobs: Iterable[Json], now: datetime | None = None, *, metrics: Sequence[str] = ()) -> Table:
    """One line a job, with the best value of each metric, or of its goal. If jobs wait, one column says why."""
    jobs = list(jobs)
    only_accuracy = {goal_of(job) for job in jobs} <= {ACCURACY, None}
    results = [heading(name, figures=True) for name in metrics] or ["VAL ACCURACY>" if only_accuracy else "GOAL>"]
    in_studies = any(job.get("study") for job in jobs)
    columns = [
        "ID",
        "NAME…",
        *(["STUDY?"] if in_studies else []),
        "STATUS",
        "GPUS>",
        "EPOCH>",
        *results,
        "SAMPLES/S>?",
        "SUBMITTED?",
    ]
    waits = any(map(standing, jobs))
    table = table_of(*columns, *(["IN QUEUE…"] if waits else []))
    for job in jobs:
        progress, summary = job.get("progress") or {}, job.get("summary") or {}
        table.add_row(
            plain(job["id"]),
            ("★ " if job.get("starred") else "") + plain(job["name"]),
            *([plain(job.get("study") or "-")] if in_studies else []),
            status(job),
            str(job["gpus"]),
            _stage(progress) if job.get("attempt") else "-",
            *([metric(best_of(job, name)) for name in metrics] or [goal_value(job, with_name=not only_accuracy)]),
            count(summary.get("train_samples_per_s", progress.get("samples_per_s"))),
            ago(job.get("created_at"), now),
            *([standing(job) or "-"] if waits else []),
        )
    return table


def _stage(progress: Json) -> str:
    """3/30; of a script that counts in units of its own: 40/100; without epochs: 200 steps."""
    if progress.get("done") is not None:
        return _own_units(progress)
    if _has_epochs(progress) or not progress.get("step"):
        return _epochs(progress)
    return f"{_steps(progress)} steps"


def _has_epochs(progress: Mapping[str, Any]) -> bool:
    return bool(progress.get("epoch") or progress.get("epochs"))


def _epochs(progress: Mapping[str, Any]) -> str:
    return f"{progress.get('epoch', 0)}/{progress.get('epochs') or '?'}" if _has_epochs(progress) else "-"


def _steps(progress: Mapping[str, Any]) -> str:
    return f"{progress.get('step', 0)}" + (f"/{progress['steps']}" if progress.get("steps") else "")


def _own_units(progress: Mapping[str, Any]) -> str:
    total = "" if progress.get("total") is None else f"/{progress['total']:g}"
    return f"{progress['done']:g}{total}"


def software(attempt: Json) -> str | None:
    """The versions of what the hosts of an attempt had when it was launched; those of each host if they differ."""
    texts = {
        plain(share["host"]): ", ".join(f"{plain(name)} {plain(text)}" for name, text in share["software"].items())
        for share in attempt.get("shares") or []
        if share.get("software")
    }
    if len(set(texts.values())) <= 1:
        return next(iter(texts.values()), None)
    return "\n".join(f"{host}: {text}" for host, text in texts.items())


def job_details(
    job: Json,
    now: datetime | None = None,
    *,
    attempt: Json | None = None,
    hosts: Sequence[Json] = (),
    more: Mapping[str, object] | None = None,
) -> Table:
    """What a person wants to know first about a job. `attempt` is its newest one, on `hosts`; `more` comes last."""
    attempt = attempt or {}
    plan = job.get("plan") or {}
    spec = job.get("spec") or {}
    before = job.get("continued_from")
    rows: dict[str, object] = {
        "id": plain(job["id"]),
        "name": plain(job["name"]),
        "status": status(job),
        **why(job),
        "in queue": standing(job),
        "expected to start": expected_start(job),
        "idle": idle_text(job["idle"], now) if job.get("idle") else None,
        "alerts": alerts_text(job, now),
        "star": "yes" if job.get("starred") else None,
        "archived": "yes" if job.get("archived") else None,
        "study": place_in_study(job),
        "continues": f"job {plain(before['job'])} from epoch {before['epoch']}" if before else None,
        "imported": f"run {plain(job['run_id'])}, trained with no service" if job.get("run_id") else None,
        **what_runs(spec),
        **_data(job.get("dataset")),
        "gpus": job["gpus"],
        "attempt": job.get("attempt") or None,
        "slots": slots(attempt),
        "device": devices(attempt, hosts),
        "software": software(attempt),
        "preempted": _why_preempted(attempt),
        "lost": f"{job['losses']} attempts, with their host or supervisor" if job.get("losses") else None,
        "batch": batch_text(spec, plan) if plan else None,
        "learning rate": plan.get("learning_rate"),
        "samples": f"{count(plan['train_samples'])} train, {count(plan.get('validation_samples'))} validation"
        if plan.get("train_samples")
        else None,
        "set-up": _setup(attempt.get("setup") or {}),
        "submitted": ago(job.get("created_at"), now),
        "started": ago(job["started_at"], now) if job.get("started_at") else None,
        "ended": ago(job["ended_at"], now) if job.get("ended_at") else None,
        "keeps": _kept_files(job),
        "copies": behind_text(job["copies_behind"], now) if job.get("copies_behind") else None,
    }
    if job.get("notes"):
        rows["notes"] = first_lines(job["notes"])
    if job.get("attempt") and not job.get("summary"):
        rows["progress"] = progress_of(job)
    return facts(rows, _results(job), _metrics(job), more or {})


def _kept_files(job: Json) -> str | None:
    """What it keeps on disk: 1.2 GB: 0.9 GB of checkpoints, 0.3 GB of artifacts."""
    kept_bytes = {"checkpoints": job.get("checkpoint_bytes") or 0, "artifacts": job.get("artifact_bytes") or 0}
    parts = [f"{size_text(value)} of {files}" for files, value in kept_bytes.items() if value]
    total = f"{size_text(sum(kept_bytes.values()))}: " if len(parts) > 1 else ""
    return total + ", ".join(parts) or None


def _why_preempted(attempt: Json) -> str | None:
    """To make room for job 0abc; because host ha is drained."""
    if not attempt.get("preemption"):
        return None
    cause = plain(attempt["preempted_for"])
    return f"to make room for {cause}" if attempt["preemption"]["kind"] == "job" else f"because {cause}"


def results_table(job: Json, address: str, *, trained_on: str | None = None) -> Table:
    """The results of a job, its devices, and the address of its page."""
    head: dict[str, object] = {"status": status(job), **why(job)}
    table = facts(head, {"device": trained_on}, _results(job), _metrics(job), {"address": address})
    table.title = f"Job {plain(job['id'])} ({plain(job['name'])})"
    table.title_justify = "left"
    return table


def _results(job: Json) -> dict[str, object]:
    summary = job.get("summary")
    if job.get("probe"):
        return probe_rows(job)
    if not summary:
        return {}
    epochs = (job.get("progress") or {}).get("epochs")
    stopped = ", stopped early" if summary.get("stopped_early") else ""
    has_accuracy = summary.get("val_accuracy") is not None
    after_best, is_script = summary.get("after_best_share"), job.get("code") is not None
    return {
        "best epoch": f"{summary.get('best_epoch')}, with {percent(after_best)} of the time after it"
        if after_best
        else summary.get("best_epoch"),
        "val accuracy": number(summary["val_accuracy"]) if has_accuracy and not is_script else None,
        "val loss": None if is_script else number(summary.get("val_loss")),
        "test accuracy": number(summary["test_accuracy"]) if summary.get("test_accuracy") is not None else None,
        "samples/s": count(summary.get("train_samples_per_s")),
        "training time": duration(summary.get("wall_s")),
        "epochs run": f"{summary.get('epochs_run')} of {epochs}{stopped}" if epochs else summary.get("epochs_run"),
    }


def _metrics(job: Json) -> dict[str, object]:
    """A row for each metric. They stay apart from other rows: a script may report a metric `status` or `error`."""
    return metric_rows(job) if job.get("attempt") and not job.get("probe") else {}


def _data(dataset: Json | None, *, most: int = 5) -> dict[str, object]:
    """The format, shape and classes of the job's data, and its damaged files."""
    if not dataset:
        return {}
    classes = [plain(name) for name in dataset.get("classes") or []]
    named = ", ".join(classes[:most]) + (", ..." if len(classes) > most else "")
    shape = "x".join(map(str, dataset["shape"])) + (" words" if dataset.get("words") is not None else "")
    damaged = dataset.get("damaged")
    files = ", ".join(plain(name) for name in dataset["damaged_files"][:most])
    several = " of which several may apply" if dataset.get("task") == "multilabel" else ""
    names = f"{several}: {named}" if classes else ""
    return {
        "data": f"{plain(dataset['format'])}, {shape}, {learned(len(classes), dataset.get('targets'))}{names}",
        "damaged": f"{count(damaged)} left out: {files}" if damaged else None,
        "warning": "\n".join(map(plain, dataset.get("warnings") or [])) or None,
    }


def learned(classes: int | None, targets: int | None) -> str:
    """What the samples of a dataset are learned for: the number of its targets or classes; None is unknown."""
    if targets:
        return f"{count(targets)} target{'s' * (targets != 1)}"
    return "-" if classes is None else f"{count(classes)} class{'es' * (classes != 1)}"


def _setup(phases: Mapping[str, float]) -> str | None:
    """How long each part of the set-up took, in the order in which they come."""
    names = sorted(phases, key=lambda name: _PHASES.index(name) if name in _PHASES else len(_PHASES))
    return ", ".join(f"{plain(name).replace('_', ' ')} {duration(phases[name])}" for name in names) or None


def progress_of(job: Json) -> str:
    """The progress of a job in one line."""
    progress = job.get("progress") or {}
    if job.get("probe"):
        return probe_progress(progress, job["probe"].get("points") or [])
    return progress_line(progress, goal=goal_of(job))


def progress_line(progress: Mapping[str, Any], *, goal: str | None = None) -> str:
    """Progress in one line: epoch 3/30  step 120/1400  5,210 samples/s  val_accuracy 0.9312  ETA 12.0 s."""
    if "per_gpu_batch" in progress:
        return probe_progress(progress)
    metrics = progress.get("metrics") or {}
    name = present_goal(metrics, goal)
    is_counted = progress.get("done") is not None
    parts = [
        f"done {_own_units(progress)}" if is_counted else "",
        f"epoch {_epochs(progress)}" if progress.get("epoch") or (progress.get("epochs") and not is_counted) else "",
        f"step {_steps(progress)}" if progress.get("step") or not is_counted else "",
        f"{count(progress['samples_per_s'])} samples/s" if progress.get("samples_per_s") is not None else "",
        f"{plain(name)} {metric(metrics[name])}" if name is not None and metrics[name] is not None else "",
        f"ETA {duration(progress['eta_s'])}" if progress.get("eta_s") is not None else "",
    ]
    return "  ".join(part for part in parts if part)


def epoch_line(data: Mapping[str, Any], epochs: int | None, *, goal: str | None = None) -> str:
    """One epoch's figures in one line."""
    names = names_of_epoch(data, goal=goal)
    parts = [f"epoch {data.get('epoch')}/{epochs or '?'}", *(f"{plain(name)} {metric(data[name])}" for name in names)]
    if data.get("samples_per_s") is not None:
        parts.append(f"{count(data['samples_per_s'])} samples/s")
    return "  ".join(parts)
