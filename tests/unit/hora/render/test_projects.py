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


def test_projects_table_shows_usage_and_limits() -> None:
    limits = {"max_slots": 4, "max_queued": 10, "max_gpu_hours": 1000.0, "max_storage_gb": 50.0}
    limited = project(**limits, members=["ada", "bob"], description="Images")
    _, free, held = as_text(projects_table([project(), limited])).splitlines()
    assert free.split() == ["vision", "3", "2", "12.3", "4.3", "0", "-"]
    assert held.split() == [
        "vision",
        "3",
        "of",
        "4",
        "2",
        "of",
        "10",
        "12.3",
        "of",
        "1,000",
        "4.3",
        "of",
        "50",
        "2",
        "Images",
    ]


def test_projects_table_notes_archived_and_members_only() -> None:
    table = as_text(projects_table([project(is_open=False, archived_at="2026-11-01T00:00:00Z")]))
    assert "archived, members only" in table


def test_projects_table_says_what_else_applies_to_jobs() -> None:
    idle = {"below": 5.0, "for_s": 1800.0, "action": "pause"}
    table = as_text(projects_table([project(is_open=False, max_priority=0, share=2.0, idle=idle)]))
    assert "members only, priority up to 0, share 2, idle: pause" in table


def test_project_details_show_limits_members_and_status() -> None:
    facts = facts_of(
        project_facts(project(max_slots=4, max_storage_gb=50.0, members=["ada", "b\x1b[1mob"], is_open=False))
    )
    assert facts["slots"] == "3 of 4 leased"
    assert facts["GPU-hours"] == "12.3 this month, which ends at 2026-12-01 00:00 UTC"
    assert facts["storage"] == "4.3 of 50 GB of checkpoints and artifacts"
    assert facts["members"] == "ada, b\\x1b[1mob"
    assert facts["status"] == "members only"
    assert "priority" not in facts
    assert facts_of(project_facts(project(max_priority=0)))["priority"] == "up to 0; only admins go above"


def test_a_share_is_shown_where_it_says_something() -> None:
    assert "share" not in as_text(projects_table([project(share=1.0)])).splitlines()[1]
    assert facts_of(project_facts(project(share=1.0)))["share"] == "1 (1 is the default)"
    assert facts_of(project_facts(project(share=0.5)))["share"] == "0.5 (1 is the default)"
    assert "share" not in facts_of(project_facts(project()))  # of an older service


def test_a_share_is_a_number() -> None:
    assert _document(None, None, share="2.5") == {"share": 2.5}
    for wrong in ("much", "", "nan", "inf", "none"):
        with pytest.raises(typer.BadParameter, match="is not a number; 1 is the default"):
            _document(None, None, share=wrong)


def test_only_options_that_were_given_are_sent() -> None:
    assert _document(None, None, max_slots=None, max_priority=None) == {}
    limits = {"max_slots": "4", "max_queued": "none", "max_gpu_hours": "0.5", "max_storage_gb": "100"}
    assert _document("", True, **limits, max_priority="0") == {
        "description": "", "is_open": False, "max_slots": 4, "max_queued": None, "max_gpu_hours": 0.5,
        "max_storage_gb": 100.0, "max_priority": 0,
    }  # fmt: skip


@pytest.mark.parametrize("text", ["four", "1.5", "", "inf"])
def test_slot_limit_that_is_not_a_whole_number_is_refused(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a number; `none` removes the limit"):
        _document(None, None, max_slots=text)


def test_infinite_gpu_hours_are_refused() -> None:
    with pytest.raises(typer.BadParameter, match="is not a number; `none` removes the limit"):
        _document(None, None, max_gpu_hours="inf")


def test_project_details_say_what_is_done_with_idle_slots() -> None:
    assert "idle slots" not in facts_of(project_facts(project()))
    idle = {"below": 5.0, "for_s": 1800.0, "action": "pause"}
    assert facts_of(project_facts(project(idle=idle)))["idle slots"] == "below 5 % for 1800 s: pause"


def test_idle_slots_are_fields_with_values() -> None:
    def sent(text: str) -> Any:
        return _document(None, None, text)

    assert sent("below=5, for_s=600,action=stop") == {"idle": {"below": 5, "for_s": 600, "action": "stop"}}
    assert sent("none") == {"idle": None}
    for wrong in ("", "below", "below=", "=5", "below=5,,for_s=60"):
        with pytest.raises(typer.BadParameter, match="is not NAME=VALUE"):
            sent(wrong)


def test_the_cost_of_a_project_is_shown_if_it_is_known() -> None:
    priced = project()
    priced["usage"] |= {"cost": 1234.4}
    assert facts_of(project_facts(priced))["cost"] == "1,234 this month"
    assert "cost" not in facts_of(project_facts(project()))
