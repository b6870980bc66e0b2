"""From the texts of `hora set` to changes, and back to words."""

import pytest

from hora.cli.job_changes import changed_text, changes_of
from jobs.model.problems import InvalidSpec


def test_texts_become_changes() -> None:
    texts = ["priority=80", "time_limit_s=1e3", "name=run #5: a=b", "label.team=vision", "labels.git.commit=12"]
    assert changes_of([*texts, "label.draft=", "priority=81"]) == {
        "priority": 81,
        "time_limit_s": 1000.0,
        "name": "run #5: a=b",
        "labels": {"team": "vision", "git.commit": "12", "draft": None},
    }
    assert changes_of(["time_limit_s=none"]) == changes_of(["time_limit_s=null"]) == {"time_limit_s": None}


@pytest.mark.parametrize(
    ("texts", "fields"),
    [
        (["priority"], ["priority"]),
        (["priority=1", "=x", "team"], ["=x", "team"]),
        (["priority=high", "gpus=4", "time_limit_s=2h"], ["gpus", "priority", "time_limit_s"]),
        (["label.=x"], ["labels."]),
        (["time_limit_s=", "priority= "], ["priority", "time_limit_s"]),
        (["priority={a: 1"], ["priority"]),
        (["priority=.inf"], ["priority"]),
        (["name="], ["name"]),
        (["label.a b=x", f"label.c={'x' * 256}"], ["labels.a b", "labels.c"]),
    ],
)
def test_every_wrong_text_is_named(texts: list[str], fields: list[str]) -> None:
    with pytest.raises(InvalidSpec) as refusal:
        changes_of(texts)
    assert sorted(problem.field for problem in refusal.value.problems) == fields
    assert all(problem.message for problem in refusal.value.problems)


def test_what_was_probably_meant_is_said() -> None:
    for text, meant in (
        ("labels={c: d}", "label.KEY=VALUE"),
        ("time_limit_s=", "time_limit_s=none"),
        ("colour=red", "no such field `colour`. What can change: name, priority,"),
        ("prioriti=1", "`priority`\\?$"),
        ("epochs=3", "is fixed since the submission: submit a clone. What can change: name"),
    ):
        with pytest.raises(InvalidSpec, match=meant):
            changes_of([text])


def test_what_changed_is_said_in_words() -> None:
    job = {"name": "a\x1b[2J", "priority": 80, "labels": {"team": "vision", "other": "x"}, "spec": {}}
    job["project"] = "default"
    changes = {"time_limit_s": None, "priority": 80, "labels": {"team": "vision", "draft": None}}
    assert changed_text(job, changes) == "time_limit_s none, priority 80, label team=vision, no label draft"
    noted = job | {"notes": "\x1b]0;title\x07", "starred": True}
    assert changed_text(noted, {"notes": "x", "starred": True}) == "notes of 10 characters, starred yes"
    assert changed_text(job, {"notes": None, "starred": False}) == "notes none, starred no"
    assert changed_text(job | {"archived": True}, {"archived": True}) == "archived yes"
    assert changed_text(job | {"spec": {"time_limit_s": 7200.0}}, {"time_limit_s": 7200}) == "time_limit_s 7200"
    assert "\x1b" not in changed_text(job, {"name": "x"})
    assert changed_text(job | {"project": "0x10"}, changes_of(["project=0x10"])) == "project 0x10"
