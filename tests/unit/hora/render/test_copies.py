"""What the command line says of copies in the store."""

from datetime import UTC, datetime

import pytest

from hora.errors import Json
from hora.render.copies import behind_text, event_text

NOW = datetime(2026, 1, 2, 14, 5, tzinfo=UTC)
BEHIND: Json = {
    "since": "2026-01-02T14:02:33Z", "host": "ha", "step": 1200, "bytes": 1_200_000_000, "why": "connection refused",
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "subject", "place", "why"),
    [
        ({}, "the checkpoint of step 1,200 (1.2 GB) has", "host ha since 14:02 UTC", "connection refused"),
        ({"step": None, "bytes": 2e5, "why": None}, "artifacts (0.2 MB) have", "host ha since 14:02 UTC", "it is slow"),
        (
            {"since": "2026-01-02T00:30:00+01:00", "step": 0, "host": "h\x1b", "why": "no\x1b[2J"},
            "the checkpoint of step 0 (1.2 GB) has", "host h\\x1b since 2026-01-01 23:30 UTC", "no\\x1b[2J",
        ),
    ],
)  # fmt: skip
def test_what_waits_for_the_store_is_said_in_one_sentence(changes: Json, subject: str, place: str, why: str) -> None:
    assert behind_text(BEHIND | changes, NOW) == f"{subject} waited on {place} to be copied to the store: {why}"


def test_only_events_that_are_news_have_a_sentence() -> None:
    copy = {"attempt": 1, "step": 1200, "bytes": 1_200_000_000, "duration_s": 65.2}
    fetched = "the checkpoint of step 1,200 was fetched from the store: 1.2 GB in 1 min 05 s"
    assert event_text("checkpoint_fetched", copy) == fetched
    assert (event_text("copies_behind", BEHIND) or "").endswith(": connection refused")
    assert event_text("checkpoint_copied", copy) is None
    assert event_text("placed", {}) is None
