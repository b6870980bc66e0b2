"""What the command line says of slots that nobody uses."""

from datetime import UTC, datetime

from hora.render.idle import idle_event_text, idle_text

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


def test_the_history_tells_it() -> None:
    assert (idle_event_text("idle_warned", WARNING) or "").startswith("its 8 GPUs are used less than 5 % since ")
    acted = WARNING | {"acted_at": "2030-01-31T14:32:10Z", "why": WHY}
    assert idle_event_text("idle_acted", acted) == f"stopped: {WHY}"
    withdrawn = idle_event_text("idle_withdrawn", {"why": "its slots are used again"})
    assert withdrawn == "the warning about idle slots is withdrawn: its slots are used again"
    assert idle_event_text("epoch_ended", {}) is None
