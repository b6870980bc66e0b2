"""The lines that the command line prints while it waits for a job or a study."""

import io
from typing import Any, cast

import pytest
from rich.console import Console

from hora.cli.follow import ScriptOutput, plain_lines
from hora.cli.follow_study import plain_lines as study_lines
from hora.service import Service


class Played:
    """A service that returns the events in `happened`."""

    def __init__(self) -> None:
        self.happened: list[dict[str, Any]] = []

    def events(self, job_id: str) -> list[dict[str, Any]]:
        return [{"id": number, **event} for number, event in enumerate(self.happened, 1)]


def queued(position: int | None, reason: str, **changes: Any) -> dict[str, Any]:
    return {"id": "0abc", "status": "queued", "waiting": {"position": position, "reason": reason}, **changes}


def printed(*states: dict[str, Any]) -> list[str]:
    """The lines of a job that has these states, one after the other."""
    console = Console(file=io.StringIO(), width=200)
    with plain_lines(cast("Service", Played()), console) as watch:
        for state in states:
            watch(state)
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined,no-any-return]


def test_waiting_job_prints_a_line_for_a_new_reason_but_not_for_new_numbers() -> None:
    assert printed(
        queued(12, "needs 4 slots; best host has 2 free"),
        queued(11, "needs 4 slots; best host has 3 free"),
        queued(3, "is next"),
        queued(None, "paused", paused_at="2030-01-01T00:00:00Z"),
    ) == ["queued, 12th: needs 4 slots; best host has 2 free", "queued, 3rd: is next", "queued (paused)"]


def test_each_batch_of_a_probe_has_a_line_before_that_of_its_end() -> None:
    point = {"fits": True, "step_time_s": 0.01, "samples_per_s": 800.0, "global_batch": 16}

    def probing(*batches: int, **changes: Any) -> dict[str, Any]:
        points = [{**point, "per_gpu_batch": batch} for batch in batches]
        return {"id": "0abc", "status": "running", "probe": {"points": points}, **changes}

    end = probing(8, 16, status="succeeded", ended_at="2030-01-01T00:00:00Z")
    next_attempt = (probing(), probing(8))  # it begins anew
    lines = printed(probing(), probing(8), probing(8), probing(8, 16, 32), *next_attempt, end)
    assert [line.partition(" per GPU")[0] for line in lines] == [
        "running", "batch 8", "batch 16", "batch 32", "batch 8", "batch 16", "succeeded",
    ]  # fmt: skip
    assert lines[1] == "batch 8 per GPU, 16 in all: 800 samples/s, 10.00 ms a step"


class Log:
    """A service with the log of rank 0."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def logs(
        self, job_id: str, *, rank: int, tail: int | None = None, after: int = 0, limit: int = 0
    ) -> dict[str, Any]:
        lines = list(enumerate(self.lines, 1))
        chosen = lines[-tail:] if tail else lines[after:][:limit]
        return {"items": [{"text": text} for _, text in chosen], "next_after": chosen[-1][0] if chosen else 0}


@pytest.mark.parametrize(("before", "shown"), [([], "1 2 3"), (["a", "b", "c"], "b c 1 2 3")])
def test_the_tail_of_a_log_is_followed_by_its_new_lines(before: list[str], shown: str) -> None:
    log, console = Log(), Console(file=io.StringIO(), width=200)
    log.lines += before
    output = ScriptOutput(cast("Service", log), "0abc", console, tail=2)
    output.is_of_script = True
    output.show()
    log.lines += ["1", "2", "3"]
    output.show()
    assert console.file.getvalue().split() == shown.split()  # type: ignore[attr-defined]


def test_events_that_are_news_have_a_line() -> None:
    service, console = Played(), Console(file=io.StringIO(), width=200, markup=False)
    job = {"id": "0abc", "status": "running"}
    copy = {"step": 1200, "bytes": 1.2e9, "duration_s": 9.0}
    behind = {"since": "2030-01-01T14:02:00Z", "host": "ha", "step": 1200, "bytes": 1.2e9, "why": "it refuses"}
    alert = {"kind": "alert", "data": {"level": "error", "title": "[red]NaN[/red]", "text": "at step 3", "rank": 0}}
    of_rank_1 = {"kind": "alert", "data": alert["data"] | {"rank": 1}}
    ended = {"kind": "attempt_ended", "attempt": 1, "data": {"end_reason": "preempted"}}
    service.happened.append({"kind": "checkpoint_fetched", "data": copy})
    again, lost = queued(1, "is next"), ended | {"data": {"end_reason": "host_lost"}}
    with plain_lines(cast("Service", service), console) as watch:
        for news, state in (
            ([], job),
            ([{"kind": "checkpoint_copied", "data": copy}, {"kind": "copies_behind", "data": behind}], job),
            ([], job | {"copies_behind": behind}),
            ([ended, {"kind": "requeued", "attempt": 1, "data": {}}], again),
            ([], job),
            ([lost, {"kind": "requeued", "attempt": 2}], again),
            ([], job),
            ([alert], job | {"alerts": 1}),
            ([alert, of_rank_1], job | {"alerts": 3, "code": "0" * 64}),  # the output of rank 0 shows its alerts
        ):
            service.happened += news
            watch(state)
    fetched, waiting, *others = (
        line
        for line in console.file.getvalue().splitlines()
        if line not in ("running", "queued, 1st: is next")  # type: ignore[attr-defined]
    )
    assert fetched == "the checkpoint of step 1,200 was fetched from the store: 1.2 GB in 9.0 s"
    assert waiting.startswith("the checkpoint of step 1,200 (1.2 GB) has waited on host ha since 2030-01-01 14:02 UTC")
    assert others == [
        "attempt 1 made room; the job waits for its next one",
        "attempt 2 was lost; the job waits for its next one",
        *2 * ["alert: error: [red]NaN[/red]: at step 3"],
    ]


def study(*jobs: tuple[str, str | None], repeats: int = 2) -> dict[str, Any]:
    """A study with two jobs a cell; each job has a status and an end reason."""
    made = [
        {"id": f"job{place}", "repeat": place % 2, "status": status, "end_reason": reason}
        for place, (status, reason) in enumerate(jobs)
    ]
    cells = [{"values": {"gpus": n // 2 + 1}, "jobs": made[n : n + 2]} for n in range(0, len(made), 2)]
    return {"name": "grid", "repeats": repeats, "jobs": len(made), "cells": cells}


def printed_of_study(*seen: dict[str, Any]) -> list[str]:
    written = io.StringIO()
    with study_lines(Console(file=written, width=40)) as watch:
        for one in seen:
            watch(one)
    return written.getvalue().splitlines()


def test_each_job_is_printed_once_when_it_ends() -> None:
    waits, done = ("queued", None), ("succeeded", "completed")
    assert printed_of_study(
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
    assert printed_of_study(alone) == ["grid: succeeded job0  (1 of 1)"]
