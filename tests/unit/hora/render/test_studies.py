"""How the terminal shows studies."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hora.render import studies
from jobs.views.studies import StudyView
from tests.printed import as_text, facts_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def study(*statuses: str, **changes: Any) -> dict[str, Any]:
    """A study of cells with two jobs each, as the API returns it."""
    jobs = [
        {"id": f"job{number}", "repeat": number % 2, "status": status, "end_reason": None, "paused": False,
         "replaced": []}
        for number, status in enumerate(statuses)
    ]  # fmt: skip
    cells = [
        {"values": {"gpus": gpus, "dataset.augment": ["flip_horizontal"]}, "gpus": gpus, "jobs": pair}
        for gpus, pair in enumerate((jobs[i : i + 2] for i in range(0, len(jobs), 2)), 1)
    ]
    everything = {
        "id": "0stu", "name": "grid\x1b[2J", "owner": "ada", "project": "default", "repeats": 2, "target": None,
        "varied": ["gpus", "dataset.augment"], "jobs": len(jobs), "paused": 0,
        "counts": {status: statuses.count(status) for status in statuses},
        "complete": not {*statuses} & {"queued", "launching", "running"}, "cancel_requested_at": None,
        "created_at": NOW, "revision": 1, "base": {}, "grid": {}, "cells": cells, "notes": [], **changes,
    }  # fmt: skip
    return StudyView.model_validate(everything).model_dump(mode="json")


@pytest.mark.parametrize(
    ("statuses", "changes", "outcome", "told"),
    [
        (("succeeded", "succeeded"), {}, "succeeded", "succeeded"),
        (("succeeded", "failed"), {}, "failed", "failed"),
        (("cancelled", "failed"), {}, "failed", "failed"),
        (("cancelled", "failed"), {"cancel_requested_at": NOW}, "cancelled", "cancelled"),
        (("succeeded", "succeeded"), {"cancel_requested_at": NOW}, "succeeded", "succeeded"),
        (("succeeded", "cancelled"), {}, "cancelled", "cancelled"),
        (("queued", "queued"), {}, None, "queued"),
        (("queued", "queued"), {"paused": 2}, None, "queued (paused)"),
        (("queued", "running"), {"paused": 1}, None, "running"),
        (("queued", "succeeded"), {}, None, "running"),
    ],
)
def test_status_and_outcome_of_a_study_follow_from_its_jobs(
    statuses: tuple[str, ...], changes: dict[str, Any], outcome: str | None, told: str
) -> None:
    found = study(*statuses, **changes)
    assert studies.study_outcome(found) == outcome
    assert studies.study_status(found).plain == told


def test_a_list_has_a_line_for_each_study_and_the_best_values_if_there_are_any() -> None:
    mixed = study("succeeded", "failed", "running", "queued")
    _, line = as_text(studies.studies_table([mixed], NOW)).splitlines()
    columns = "0stu grid\\x1b[2J running 2/4 1 gpus, dataset.augment 2 {}0.0 s ago"
    assert " ".join(line.split()) == columns.format("")
    best = {"metric": "val_loss\x1b", "value": 0.031}
    heading, *lines = as_text(studies.studies_table([study("succeeded") | {"best": best}, mixed], NOW)).splitlines()
    assert "BEST" in heading
    assert "val_loss\\x1b 0.0310" in lines[0]
    assert " ".join(lines[1].split()) == columns.format("- ")
    assert studies.jobs_line(mixed) == "2 of 4 jobs ended, 1 failed, 1 running, 1 queued"
    assert studies.jobs_line(study("succeeded", "succeeded")) == "2 of 2 jobs ended"


def test_study_details_show_its_notes_and_its_target() -> None:
    notes = [{"id": 1, "at": NOW, "author": "ada", "text": "Try\na larger rate\x07."}]
    facts = facts_of(studies.study_facts(study("succeeded", "succeeded", notes=notes, target=0.9), NOW))
    assert facts["notes"] == "2026-01-02 03:04 ada: Try\n  a larger rate\\x07."
    assert facts["target"] == "val accuracy 0.9"
    assert "target" not in facts_of(studies.study_facts(study("queued", "queued"), NOW))


def test_each_cell_is_a_line_with_its_values_and_jobs() -> None:
    head, first, second = as_text(
        studies.cells_table(study("succeeded", "succeeded", "running", "queued"))
    ).splitlines()
    assert head.split() == ["CELL", "GPUS", "DATASET.AUGMENT", "STATUS", "JOBS"]
    assert " ".join(first.split()) == '1 1 ["flip_horizontal"] 2 succeeded job0 job1'
    assert " ".join(second.split()) == '2 2 ["flip_horizontal"] 1 running, 1 queued job2 job3'
