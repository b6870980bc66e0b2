"""What the command line shows of studies: tables and lines, from the API's JSON. Pure."""

import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.jobs import STATUS_STYLE
from hora.render.metrics import metric
from hora.render.tables import facts, table_of
from hora.render.text import ago, count, heading, plain, plain_lines

_ENDED = ("succeeded", "failed", "cancelled")


def study_outcome(study: Json) -> str | None:
    """How a study ended, as the status of a job. None while one of its jobs goes on."""
    if not study["complete"]:
        return None
    counts = study["counts"]
    if study.get("search") is not None and study.get("cancel_requested_at"):
        return "cancelled"  # also if each job that it had begun has succeeded
    if counts.get("cancelled") and (study.get("cancel_requested_at") or not counts.get("failed")):
        return "cancelled"
    return "failed" if counts.get("failed") else "succeeded"


def study_status(study: Json) -> Text:
    """The status of a study, in its colour."""
    counts = study["counts"]
    name = study_outcome(study) or next(
        (name for name in ("running", "launching") if counts.get(name)), "running" if _ended(study) else "queued"
    )
    waits = sum(counts.get(name, 0) for name in ("queued", "launching", "running"))
    words = f"{name} (paused)" if waits and study.get("paused") == waits else name
    return Text(words, style=STATUS_STYLE.get(name, ""))


def jobs_line(study: Json) -> str:
    """How far it is: 5 of 12 jobs ended, 1 failed, 2 running."""
    return ", ".join(filter(None, [f"{_ended(study)} of {study['jobs']} jobs ended", jobs_left(study)]))


def jobs_left(study: Json) -> str:
    """The jobs that did not succeed, or have not ended: 1 failed, 2 running."""
    counts = study["counts"]
    return ", ".join(f"{counts[name]} {plain(name)}" for name in counts if counts[name] and name != "succeeded")


def _ended(study: Json) -> int:
    return sum(study["counts"].get(name, 0) for name in _ENDED)


def value(given: Any) -> str:
    """A value of a field as a person wrote it."""
    return plain(given if isinstance(given, str) else json.dumps(given))


def values_line(values: Mapping[str, Any]) -> str:
    """The values of a cell in one line: gpus=2 batch_size=64."""
    return " ".join(f"{plain(field)}={value(given)}" for field, given in values.items())


def studies_table(studies: Iterable[Json], now: datetime | None = None) -> Table:
    """One line a study. If some have a best value, one column has it."""
    studies = list(studies)
    have_best = any(study.get("best") for study in studies)
    best = ["BEST?"] if have_best else []
    table = table_of("ID", "NAME…", "STATUS", "ENDED>", "FAILED>", "VARIES…", "REPEATS>?", *best, "SUBMITTED")
    for study in studies:
        table.add_row(
            plain(study["id"]),
            plain(study["name"]),
            study_status(study),
            f"{_ended(study)}/{study['jobs']}",
            str(study["counts"].get("failed", 0) or "-"),
            plain(", ".join(study["varied"]) or "-"),
            str(study["repeats"]),
            *([_best_text(study.get("best"))] if have_best else []),
            ago(study.get("created_at"), now),
        )
    return table


def _best_text(best: Json | None) -> str:
    """val_accuracy 0.9312; a dash if no job has succeeded."""
    return f"{plain(best['metric'])} {metric(best['value'])}" if best else "-"


def study_facts(study: Json, now: datetime | None = None) -> Table:
    """What a study is and how far it is."""
    target = study.get("target")
    return facts(
        {
            "id": plain(study["id"]),
            "name": plain(study["name"]),
            "status": study_status(study),
            "jobs": jobs_line(study),
            "varies": plain(", ".join(study["varied"]) or "nothing"),
            "waits": None if study.get("obstacle") is None else plain(study["obstacle"]),
            "repeats": study["repeats"],
            "target": None if target is None else f"{_goal(study)} {target:g}",
            "submitted": ago(study.get("created_at"), now),
            "notes": "\n".join(map(note_line, study.get("notes") or [])) or None,
        }
    )


def _goal(study: Json) -> str:
    """The metric of its target, as far as the base says it."""
    base = study.get("base") or {}
    metric = (base.get("goal") or {}).get("metric")
    return plain(metric) if metric else "goal" if base.get("code") else "val accuracy"


def note_line(note: Json) -> str:
    """One note of a study: 2026-01-02 03:04 ada: the rate is too high."""
    at = datetime.fromisoformat(note["at"])
    text = plain_lines(note["text"]).replace("\n", "\n  ")
    return f"{at:%Y-%m-%d %H:%M} {plain(note['author'])}: {text}"


def cells_table(study: Json) -> Table:
    """One line a cell, with its jobs in the order of the repeats."""
    varied, is_search = study["varied"], study.get("search") is not None
    head = "TRIAL>" if is_search else "CELL>"
    table = table_of(head, *(heading(field, figures=True) for field in varied), "STATUS", "JOBS")
    for number, cell in enumerate(study["cells"], 0 if is_search else 1):
        table.add_row(
            str(number),
            *(value(cell["values"].get(field)) for field in varied),
            _statuses(cell["jobs"]),
            " ".join(plain(job["id"]) for job in cell["jobs"]),
        )
    return table


def _statuses(jobs: Iterable[Json]) -> Text:
    """2 succeeded, 1 running."""
    names = [plain(job["status"]) for job in jobs]
    counts = [Text(f"{names.count(name)} {name}", style=STATUS_STYLE.get(name, "")) for name in dict.fromkeys(names)]
    return Text(", ").join(counts)


def planned_table(planned: Json) -> Table:
    """What a study would run: one line a cell with its resolved plan."""
    varied = planned["varied"]
    heads = [heading(field, figures=True) for field in varied]
    table = table_of("CELL>", *heads, "GLOBAL BATCH>", "RATE USED>", "STEPS AN EPOCH>", "EPOCHS>")
    for number, cell in enumerate(planned["cells"], 1):
        plan = cell["plan"]
        table.add_row(
            str(number),
            *(value(cell["values"].get(field)) for field in varied),
            count(plan["global_batch"]),
            f"{plan['learning_rate']:g}",
            count(plan.get("steps_per_epoch")),
            count(plan["epochs"]),
        )
    return table
