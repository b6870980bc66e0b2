"""What the command line says of slots that nobody uses."""

from datetime import UTC, datetime

from hora.render.idle import idle_event_text, idle_text
from hora.render.jobs import job_details
from tests.unit.hora.render.test_jobs import JOB, NOW, facts_of

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


def test_a_job_that_was_paused_says_why() -> None:
    acted = WARNING | {"action": "pause", "acted_at": "2030-01-31T14:32:10Z", "why": WHY}
    assert idle_text(acted) == f"paused: {WHY}"


def test_the_history_tells_it() -> None:
    assert (idle_event_text("idle_warned", WARNING) or "").startswith("its 8 GPUs are used less than 5 % since ")
    acted = WARNING | {"acted_at": "2030-01-31T14:32:10Z", "why": WHY}
    assert idle_event_text("idle_acted", acted) == f"stopped: {WHY}"
    withdrawn = idle_event_text("idle_withdrawn", {"why": "its slots are used again"})
    assert withdrawn == "the warning about idle slots is withdrawn: its slots are used again"
    assert idle_event_text("epoch_ended", {}) is None


def test_a_job_shows_it_only_while_it_stands() -> None:
    assert "idle" not in facts_of(job_details(JOB | {"idle": None}, NOW))
    assert "it is stopped" in facts_of(job_details(JOB | {"idle": WARNING}, NOW))["idle"]


def test_controls_in_a_text_are_not_sent_to_the_terminal() -> None:
    assert "\x1b" not in idle_text(WARNING | {"why": "\x1b[31mred"})
