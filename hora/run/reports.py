"""What a script tells: numbers, progress and alerts."""

from __future__ import annotations

import json
import time
from typing import Any

from hora.run import checks
from hora.run.channel import send, write
from hora.run.given import is_inside
from hora.run.phases import measured

_MOST_IN_TITLE, _MOST_IN_TEXT, _MOST_ALERT_BYTES = 100, 1000, 3500  # it too fits into PIPE_BUF
_LEVELS = ("info", "warning", "error")
_FOR_TEXTS = ": run.table keeps texts, run.alert tells them, and run.artifacts is for files"


def report(*, step: int | None = None, epoch: int | None = None, **numbers: Any) -> None:
    """Store numbers under any names, from any rank.

    With a `step` they belong to that step of this rank; an `epoch` beside it says in which. With an `epoch` alone they
    belong to the end of that epoch, and those of rank 0 count for the whole job. With neither, to the run so far.
    Raises `TypeError` and `ValueError` for what is no number, no count or no name.
    """
    fields: dict[str, Any] = {"kind": "report", "at": time.time()}
    if step is not None:
        fields["step"] = checks.count("step", step)
    if epoch is not None:
        fields["epoch"] = checks.count("epoch", epoch)
    metrics = {checks.metric_name(name): checks.number(name, value, _FOR_TEXTS) for name, value in numbers.items()}
    send(fields, metrics, measured.for_report())


def progress(done: float, total: float | None = None) -> None:
    """Say how much of the work is done, in units of your own. Raises `TypeError` and `ValueError`."""
    fields = {"kind": "progress", "at": time.time(), "done": checks.amount("done", done)}
    if total is not None:
        fields["total"] = checks.amount("total", total)
    send(fields)


_alerted: dict[str, float] = {}  # when each title was last sent


def alert(title: str, text: str = "", level: str = "info", wait_seconds: float = 0) -> None:
    """Tell people something now, from any rank: in the job's events, and by its webhooks.

    `level` is `info`, `warning` or `error`. With `wait_seconds` the same title is sent only once in that time, by all
    ranks together. Long texts are cut, and of too many alerts some are left out. Raises `TypeError` and `ValueError`.
    """
    title, text = checks.text("title", title), checks.text("text", text)
    if level not in _LEVELS:
        raise ValueError(f"level must be one of {', '.join(_LEVELS)}, not {level!r:.60}")
    title, text, now = _shortened(" ".join(title.split()), _MOST_IN_TITLE), _shortened(text, _MOST_IN_TEXT), time.time()
    if not title:
        raise ValueError("title must not be empty")
    wait_s = min(checks.amount("wait_seconds", wait_seconds), 1e8)
    if title in _alerted and abs(now - _alerted[title]) < wait_s:
        return
    if len(_alerted) >= 1000:
        _alerted.clear()
    _alerted[title] = now
    if not is_inside:
        print(f"alert: {level}: {title}{text and ': '}{text}", flush=True)
        return
    fields = {"kind": "alert", "at": now, "level": level, "title": title, "text": text, "wait_s": wait_s}
    while len(json.dumps(fields, ensure_ascii=False).encode()) > _MOST_ALERT_BYTES:
        fields["text"] = text = _shortened(text, len(text) * 3 // 4)
    write(json.dumps(fields, ensure_ascii=False))


def _shortened(text: str, most: int) -> str:
    """The text, cut to so many characters, and without what is no character."""
    text = text.encode("utf-8", "replace").decode()
    return text if len(text) <= most else f"{text[: most - 1]}…"
