"""The lines that the command line prints while it waits for a study."""

import io
from typing import Any

from rich.console import Console

from hora.cli.follow_study import plain_lines


def study(*jobs: tuple[str, str | None], repeats: int = 2) -> dict[str, Any]:
    """A study with two jobs a cell; each job has a status and an end reason."""
    made = [
        {"id": f"job{place}", "repeat": place % 2, "status": status, "end_reason": reason}
        for place, (status, reason) in enumerate(jobs)
    ]
    cells = [{"values": {"gpus": n // 2 + 1}, "jobs": made[n : n + 2]} for n in range(0, len(made), 2)]
    return {"name": "grid", "repeats": repeats, "jobs": len(made), "cells": cells}


def printed_lines(*seen: dict[str, Any]) -> list[str]:
    written = io.StringIO()
    with plain_lines(Console(file=written, width=40)) as watch:
        for one in seen:
            watch(one)
    return written.getvalue().splitlines()


def test_each_job_is_printed_once_when_it_ends() -> None:
    waits, done = ("queued", None), ("succeeded", "completed")
    assert printed_lines(
        study(waits, waits, waits, waits),
        study(done, ("running", None), waits, waits),
        study(done, ("succeeded", "early_stopped"), ("failed", "out_of_memory"), ("cancelled", "cancelled")),
    ) == [
        "gpus=1, repeat 1: succeeded job0  (1 of 4)",
        "gpus=1, repeat 2: succeeded (early_stopped) job1  (2 of 4)",
        "gpus=2, repeat 1: failed (out_of_memory) job2  (3 of 4)",
        "gpus=2, repeat 2: cancelled job3  (4 of 4)",
    ]


def test_single_job_is_printed_under_the_name_of_its_study() -> None:
    alone = study(("succeeded", "completed"), repeats=1)
    alone["cells"][0]["values"] = {}
    assert printed_lines(alone) == ["grid: succeeded job0  (1 of 1)"]
