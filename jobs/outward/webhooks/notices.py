"""What a message says to a person: a title, some facts, and a link. Pure; used by `formats`.

It is made of a stored message, which an older version may have written: then some facts are missing. Texts are as
people typed them. Each format writes them so that nothing in them is read as a mention, a link or a style.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

Tone = Literal["good", "warning", "bad", "neutral"]

_TONES: dict[str, Tone] = {"succeeded": "good", "failed": "bad"}
_TONES_OF_ALERTS: dict[str, Tone] = {"error": "bad", "warning": "warning"}
_MOST_TEXT = 1000  # of a fact
_MOST_TITLE = 140


@dataclass(frozen=True)
class Notice:
    """A message for people."""

    title: str
    tone: Tone
    facts: tuple[tuple[str, str], ...]  # name and value
    link: str | None  # to the page; None: the service does not know its own address


def notice_of(payload: Mapping[str, Any]) -> Notice:
    """What a stored message says."""
    if "job" in payload:
        alert = payload.get("alert")
        return _of_job(payload["job"], payload.get("idle")) if alert is None else _of_alert(payload["job"], alert)
    if "study" in payload:
        return _of_study(payload["study"])
    return Notice("Hora can reach you", "neutral", (("webhook", str(payload["webhook"])),), None)


def _of_job(job: Mapping[str, Any], idle: Mapping[str, Any] | None) -> Notice:
    name, status = str(job["name"]), str(job["status"])
    if idle is None:
        title, tone = f"{_cut(name, _MOST_TITLE)} {status}", _TONES.get(status, "neutral")
    else:
        what = "was stopped" if job.get("ended_at") else "was paused" if idle.get("acted_at") else "is idle"
        title, tone = f"{_cut(name, _MOST_TITLE)} {what}", "bad"
    return Notice(title, tone, tuple(_facts_of_job(job, idle)), _page(job))


def _of_alert(job: Mapping[str, Any], alert: Mapping[str, Any]) -> Notice:
    title = f"{_cut(str(job['name']), _MOST_TITLE)}: {_cut(str(alert['title']), _MOST_TITLE)}"
    text = [("text", _cut(str(alert["text"])))] if alert.get("text") else []
    facts = [*text, ("level", str(alert["level"])), *_whose(job)]
    return Notice(title, _TONES_OF_ALERTS.get(str(alert["level"]), "neutral"), tuple(facts), _page(job))


def _facts_of_job(job: Mapping[str, Any], idle: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if idle is not None:
        yield "why", _cut(str(idle["why"]))
    elif job.get("end_reason") not in (None, "completed", "cancelled"):
        yield "why", str(job["end_reason"]).replace("_", " ")
    if job.get("error"):
        yield "error", _cut(str(job["error"]))
    goal = job.get("goal")
    if goal is not None and goal["best"] is not None:
        epoch = "" if goal.get("best_epoch") is None else f" in epoch {goal['best_epoch']}"
        yield f"best {goal['metric']}", f"{goal['best']:.4g}{epoch}"
    if job.get("started_at") and job.get("ended_at"):
        ran = datetime.fromisoformat(job["ended_at"]) - datetime.fromisoformat(job["started_at"])
        yield "ran for", _duration(ran.total_seconds())
    if job.get("gpu_hours") is not None:
        yield "GPU-hours", f"{job['gpu_hours']:.2f}"
    yield from _whose(job)


def _whose(job: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "of", f"{job['owner']}, project {job['project']}"
    yield "job", str(job["id"])


def _of_study(study: Mapping[str, Any]) -> Notice:
    counts: Mapping[str, int] = study["counts"]
    facts = [("jobs", ", ".join(f"{count} {status}" for status, count in sorted(counts.items())))]
    if study.get("ended_at"):
        took = datetime.fromisoformat(study["ended_at"]) - datetime.fromisoformat(study["created_at"])
        facts.append(("took", _duration(took.total_seconds())))
    facts += [("of", f"{study['owner']}, project {study['project']}"), ("study", str(study["id"]))]
    tone: Tone = "bad" if counts.get("failed") else "good"
    return Notice(f"Study {_cut(str(study['name']), _MOST_TITLE - 20)} ended", tone, tuple(facts), _page(study))


def _page(subject: Mapping[str, Any]) -> str | None:
    """The address of its page, if it is a whole one."""
    page: str | None = subject["urls"].get("page")
    return page if page is not None and page.startswith(("http://", "https://")) else None


def _cut(text: str, most: int = _MOST_TEXT) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _duration(seconds: float) -> str:
    """Seconds as a person says them: 4.2 s, 3 min 05 s, 2 h 07 min."""
    if seconds < 60:
        return f"{max(seconds, 0):.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest:02d} s" if minutes < 60 else f"{minutes // 60} h {minutes % 60:02d} min"
