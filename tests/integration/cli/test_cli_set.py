"""`hora set` and `client.jobs.update` against a real stack."""

import json
import sys
from pathlib import Path

import pytest

from hora.cli.app import main
from hora.service import Service
from hora.stack.control import Stack
from tests.commands import hora
from tests.waiting import until


@pytest.fixture
def waiting(client: Service) -> str:
    """A job that stays in the queue."""
    if not any(project["name"] == "held" for project in client.projects()):
        client.create_project({"name": "held", "max_gpu_hours": 0})
    job_id: str = client.submit({"dataset": "digits", "gpus": 1, "project": "held", "labels": {"draft": "yes"}})["id"]
    return job_id


def test_a_job_is_changed_from_the_command_line(stack: Stack, client: Service, waiting: str) -> None:
    changes = ("priority=80", "time_limit_s=7200", "label.team=x", "name=y", "label.draft=")
    done = hora(stack.home, "set", waiting, *changes)
    expected = f"{waiting} has priority 80, time_limit_s 7200, name y, label team=x, no label draft\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, expected, "")
    job = client.job(waiting)
    assert (job["priority"], job["name"], job["labels"], job["spec"]["time_limit_s"]) == (80, "y", {"team": "x"}, 7200)
    shown = json.loads(hora(stack.home, "set", waiting, "time_limit_s=none", "--json").stdout)
    assert (shown["id"], shown["spec"]["time_limit_s"]) == (waiting, None)
    for wrong in (["priority=200", "epochs=3", "label.ok=fine"], []):
        refused = hora(stack.home, "set", waiting, *wrong)
        assert (refused.returncode, refused.stdout) == (2, ""), wrong
    assert client.job(waiting)["revision"] == shown["revision"]
    client.cancel(waiting)


def test_notes_and_stars_from_the_command_line(stack: Stack, client: Service, waiting: str, tmp_path: Path) -> None:
    nothing = hora(stack.home, "note", waiting)
    assert (nothing.returncode, nothing.stdout, "has no notes" in nothing.stderr) == (0, "", True)
    assert hora(stack.home, "note", waiting, "# Why\n*diverged*").stdout == f"{waiting} has notes of 16 characters\n"
    assert hora(stack.home, "note", waiting).stdout == "  # Why\n  *diverged*\n"
    assert "*diverged*" in hora(stack.home, "show", waiting).stdout
    notes = tmp_path / "notes.md"
    notes.write_text("from a file\n")
    assert json.loads(hora(stack.home, "note", waiting, "-F", str(notes), "--json").stdout)["notes"] == "from a file"
    hora(stack.home, "note", waiting, "--file", "-", stdin="from standard input\n")
    notes.write_bytes(b"\xff")
    for wrong in (("x", "-F", str(notes)), ("-F", str(notes)), ("-F", "missing"), ("--edit",)):
        assert hora(stack.home, "note", waiting, *wrong).returncode == 2, wrong
    assert client.job(waiting)["notes"] == "from standard input"
    hora(stack.home, "note", waiting, "")
    assert client.job(waiting)["notes"] is None
    assert hora(stack.home, "star", waiting).stdout == f"{waiting} has a star\n"
    assert hora(stack.home, "ls", "--starred").stdout.count(waiting) == 1
    assert hora(stack.home, "star", "--off", waiting, "0000").returncode == 102
    client.cancel(waiting)
    until(lambda: client.job(waiting)["ended_at"], what="its end")
    assert hora(stack.home, "archive", waiting).stdout == f"{waiting} is archived\n"
    lists = ((), ("--archived",), ("--all",))
    assert [waiting in hora(stack.home, "ls", *options).stdout for options in lists] == [False, True, True]


def test_jobs_are_deleted_by_those_who_mean_it(stack: Stack, client: Service, waiting: str) -> None:
    other = client.clone(waiting)["id"]
    for job_id in (waiting, other):
        client.cancel(job_id)
        until(lambda job_id=job_id: client.job(job_id)["ended_at"], what="its end")
    unasked = hora(stack.home, "rm", waiting, other)
    assert (unasked.returncode, "add --yes" in unasked.stderr, other in unasked.stderr) == (2, True, True)
    assert hora(stack.home, "rm", waiting, "nosuchjob000", "--yes").returncode == 102
    assert client.job(waiting)["id"] == waiting, "nothing is deleted if one of them is not there"
    assert hora(stack.home, "rm", waiting, waiting, "-y").stdout == f"{waiting} is deleted\n"
    assert json.loads(hora(stack.home, "rm", other, "--yes", "--json").stdout) == {"deleted": other}
    assert hora(stack.home, "show", waiting).returncode == 102


def test_notes_are_written_in_an_editor(
    waiting: str, client: Service, monkeypatch: pytest.MonkeyPatch, stack: Stack, capsys: pytest.CaptureFixture[str]
) -> None:
    client.update(waiting, {"notes": "first"})
    monkeypatch.setenv("HORA_HOME", str(stack.home))
    monkeypatch.setenv("EDITOR", "sed -i s/first/second/")
    monkeypatch.delenv("VISUAL", raising=False)
    for stream in (sys.stdin, sys.stdout):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    assert main(["note", waiting, "--edit"]) == 0
    assert client.job(waiting)["notes"] == "second"
    monkeypatch.setenv("EDITOR", "false")
    assert main(["note", waiting, "--edit"]) == 2
    assert "the editor failed" in capsys.readouterr().err
    assert client.job(waiting)["notes"] == "second"
    client.cancel(waiting)
