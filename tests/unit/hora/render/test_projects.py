"""How the terminal shows projects, and the document that their options make."""

from typing import Any

import pytest
import typer

from hora.cli.projects import _document
from hora.render.projects import project_facts, projects_table
from tests.printed import as_text, facts_of


def project(**values: Any) -> dict[str, Any]:
    usage = {"slots": 3, "queued": 2, "gpu_hours": 12.345, "renews_at": "2026-12-01T00:00:00Z", "storage_gb": 4.26}
    limits = {"max_slots": None, "max_queued": None, "max_gpu_hours": None, "max_storage_gb": None}
    base = {"name": "vision", "description": "", "is_open": True, "members": [], "archived_at": None, "usage": usage}
    return base | limits | values


IDLE = {"below": 5.0, "for_s": 1800.0, "action": "pause"}


def test_projects_table_shows_usage_limits_and_what_else_applies() -> None:
    limits = {"max_slots": 4, "max_queued": 10, "max_gpu_hours": 1000.0, "max_storage_gb": 50.0}
    limited = project(**limits, members=["ada", "bob"], description="Images", share=1.0)
    ruled = project(is_open=False, archived_at="2026-11-01T00:00:00Z", max_priority=0, share=2.0, idle=IDLE)
    _, free, held, rules = as_text(projects_table([project(), limited, ruled])).splitlines()
    assert free.split() == ["vision", "3", "2", "12.3", "4.3", "0", "-"]
    assert " ".join(held.split()) == "vision 3 of 4 2 of 10 12.3 of 1,000 4.3 of 50 2 Images"
    assert "archived, members only, priority up to 0, share 2, idle: pause" in rules


def test_project_details_show_limits_members_and_status() -> None:
    assert facts_of(project_facts(project())) == {
        "project": "vision",
        "status": "open to everybody",
        "slots": "3 leased",
        "queue": "2 jobs",
        "GPU-hours": "12.3 this month, which ends at 2026-12-01 00:00 UTC",
        "storage": "4.3 GB of checkpoints and artifacts",
        "members": "none",
    }
    some = project(max_slots=4, members=["ada", "b\x1b[1mob"], is_open=False, share=0.5, max_priority=0, idle=IDLE)
    some["usage"] |= {"cost": 1234.4}
    assert facts_of(project_facts(some)).items() >= {
        "slots": "3 of 4 leased", "members": "ada, b\\x1b[1mob", "status": "members only", "cost": "1,234 this month",
        "priority": "up to 0; only admins go above", "share": "0.5 (1 is the default)",
        "idle slots": "below 5 % for 1800 s: pause",
    }.items()  # fmt: skip


def test_only_options_that_were_given_are_sent() -> None:
    assert _document(None, None, max_slots=None, max_priority=None) == {}
    limits = {"max_slots": "4", "max_queued": "none", "max_gpu_hours": "0.5", "max_storage_gb": "100"}
    assert _document("", True, "below=5, for_s=600,action=stop", "2.5", **limits, max_priority="0") == {
        "description": "", "is_open": False, "max_slots": 4, "max_queued": None, "max_gpu_hours": 0.5,
        "max_storage_gb": 100.0, "max_priority": 0, "share": 2.5,
        "idle": {"below": 5, "for_s": 600, "action": "stop"},
    }  # fmt: skip
    assert _document(None, None, "none") == {"idle": None}

    for option, texts, words in (
        ("max_slots", ("four", "1.5", "", "inf"), "is not a number; `none` removes the limit"),
        ("share", ("much", "", "nan", "inf", "none"), "is not a number; 1 is the default"),
        ("idle", ("", "below", "below=", "=5", "below=5,,for_s=60"), "is not NAME=VALUE"),
    ):
        for text in texts:
            with pytest.raises(typer.BadParameter, match=words):
                _document(None, None, **{option: text})
