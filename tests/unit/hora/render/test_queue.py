"""What `hora queue` shows, and what the command line says of slots that nobody uses."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

from rich.console import Console

from hora.render.idle import idle_text
from hora.render.queue import about, queue_view, starts

NOW = datetime(2030, 1, 2, 12, tzinfo=UTC)


def a_job(**changes: Any) -> dict[str, Any]:
    return {
        "id": "3k9v0t2m7x1q", "name": "resnet-50", "owner": "ann", "project": "default", "study": None, "gpus": 4,
        "priority": 50, "position": 1, "turn": 1, "level": 0, "created_at": NOW.isoformat(),
        "queued_at": (NOW - timedelta(hours=2)).isoformat(), "reason": "is next", "starts_in_s": None,
    } | changes  # fmt: skip


def an_account(user: str = "ann", **changes: Any) -> dict[str, Any]:
    return {
        "project": "default", "user": user, "used_part": 0.62, "entitled_part": 0.5, "used_slot_s": 100.0,
        "is_over": False, "queued": 3, "running_slots": 8,
    } | changes  # fmt: skip


def shown(*, is_terminal: bool = True, width: int = 100, **queue: Any) -> list[str]:
    page: dict[str, Any] = {
        "items": [], "next_cursor": None, "policy": "fair", "total": 0, "held_back": 0, "accounts": [],
        "more_accounts": 0, "forecast": None,
    }  # fmt: skip
    console = Console(
        file=io.StringIO(), width=width, markup=False, highlight=False, color_system=None, force_terminal=is_terminal
    )  # fmt: skip
    console.print(queue_view(page | queue, NOW))
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]


def test_a_queue_shows_whose_turn_it_is_and_why_each_job_waits() -> None:
    reason = "needs 1 GPU; none is free; 3 jobs come first: 1 of higher priority, 2 of users who have had less"
    lines = shown(
        items=[a_job(), a_job(id="5r0x8b2k9m1d", position=4, reason=reason, starts_in_s=11_000.0)],
        total=1234, held_back=2, accounts=[an_account("ben", used_part=0.38), an_account(is_over=True)],
        forecast={"jobs": 310, "median_error": 1.42, "within_2": 0.7}, next_cursor="x",
    )  # fmt: skip
    assert [" ".join(line.split()) for line in lines[:7]] == [
        "1,234 jobs wait; users take turns; 2 queued jobs have no place: paused, or waiting for other jobs",
        "Half of the expected starts of the last week were within a factor of 1.4 (310 compared)",
        "",
        "TURN USER PROJECT USED ENTITLED WAITING SLOTS",
        "1 ben default 38 % 50 % 3 8",
        "2 ann default 62 % 50 % 3 8 over the share",
        "",
    ]
    assert " ".join(lines[7].split()) == "PLACE JOB NAME OWNER GPUS PRIO WAITED STARTS"
    assert " ".join(lines[8].split()) == "1 3k9v0t2m7x1q resnet-50 ann 4 50 2 h -"
    assert lines[9] == "       is next"
    assert " ".join(lines[10].split()) == "4 5r0x8b2k9m1d resnet-50 ann 4 50 2 h in 3 h"
    assert " ".join(line.strip() for line in lines[11:-1]) == reason
    assert len(lines) <= 14
    assert lines[-1] == "1,230 jobs come after these; -n shows more"


def test_each_job_has_one_line_in_a_file_and_two_in_a_terminal_and_many_accounts_are_counted() -> None:
    assert len(shown(total=1, items=[a_job(name="n" * 128, owner="o" * 128)])) == 5
    lines = shown(is_terminal=False, width=10_000, total=2, items=[a_job(), a_job(reason="paused" * 50)])
    assert lines[2].endswith("STARTS  WHY IT WAITS")
    assert lines[3].endswith("-       is next")
    assert lines[4].endswith("paused" * 50)
    lines = shown(accounts=[an_account(f"user{number}") for number in range(100)], more_accounts=3)
    assert (len(lines), lines[-1]) == (14, "and 93 more, whose turns come later")


def test_an_empty_queue_says_so_and_durations_have_one_unit() -> None:
    assert shown() == ["No job waits"]
    assert shown(held_back=1) == ["No job waits; 1 queued job has no place: paused, or waiting for other jobs"]
    assert shown(total=1, items=[a_job()], policy="fifo")[0] == "1 job waits; by priority, then by age"
    durations = [about(seconds) for seconds in (-3, 89, 90, 5399, 5400, 86_400, 200_000)]
    assert durations == ["0 s", "89 s", "2 min", "90 min", "2 h", "24 h", "2 d"]
    assert [starts(None), starts(0), starts(600)] == ["-", "soon", "in 10 min"]


TODAY = datetime(2030, 1, 31, 18, tzinfo=UTC)
WARNING = {
    "attempt": 1, "below": 5, "for_s": 1800, "action": "stop", "since": "2030-01-31T14:02:05Z",
    "acts_at": "2030-01-31T14:32:05Z", "acted_at": None, "why": "its 8 GPUs are used less than 5 %",
}  # fmt: skip
WHY = "its 8 GPUs were below 5 % for 30 minutes"


def test_a_warning_says_what_follows_and_when() -> None:
    said = "its 8 GPUs are used less than 5 % since 14:02 UTC"
    assert idle_text(WARNING, TODAY) == f"{said}: at 14:32 UTC it is stopped, unless they are used again"
    assert idle_text(WARNING | {"action": "warn", "acts_at": None}, TODAY) == said
    acted = WARNING | {"action": "pause", "acted_at": "2030-01-31T14:32:10Z", "why": f"\x1b[31m{WHY}"}
    assert idle_text(acted) == f"paused: \\x1b[31m{WHY}"
