"""Messages to the rank that watches over the script: a line of JSON each, in a pipe. Outside Hora they are printed."""

from __future__ import annotations

import contextlib
import functools
import itertools
import json
import os
from collections.abc import Iterator
from typing import Any

from hora.run.given import is_inside, values

_METRICS_OF_LINE = 30  # then a line fits into what a pipe takes at once (PIPE_BUF): those of processes do not mix


def write(line: str) -> None:
    """Send a line. Lines of several processes do not mix up to PIPE_BUF, which is 4,096 bytes."""
    with contextlib.suppress(BrokenPipeError):  # the rank is gone: this process is ended soon
        os.write(_pipe(), line.encode() + b"\n")


@functools.cache
def _pipe() -> int:
    return os.open(values["channel"], os.O_WRONLY | os.O_CLOEXEC)


def send(
    fields: dict[str, Any],
    metrics: dict[str, float] | None = None,
    phases: dict[str, float] | None = None,
) -> None:
    """Send a message in as many lines as it needs."""
    if not is_inside:
        _print(fields, metrics)
        return
    if metrics is None:
        write(json.dumps(fields))
        return
    for number, part in enumerate(_parts(metrics)):
        if number == 0 and phases:
            write(json.dumps({**fields, "metrics": part, "phases": phases}))
        else:
            write(json.dumps({**fields, "metrics": part}))


def _parts(metrics: dict[str, float]) -> Iterator[dict[str, float]]:
    if len(metrics) <= _METRICS_OF_LINE:
        yield metrics
        return
    names = iter(metrics)
    while part := list(itertools.islice(names, _METRICS_OF_LINE)):
        yield {name: metrics[name] for name in part}


def _print(fields: dict[str, Any], metrics: dict[str, float] | None) -> None:
    words = {**{name: value for name, value in fields.items() if name not in ("at", "kind")}, **(metrics or {})}
    print(f"{fields['kind']}: " + " ".join(f"{name}={value:.6g}" for name, value in words.items()), flush=True)
