"""How commands end: the exit codes that docs/cli.md promises, closed pipes, Ctrl-C, and what `--json` prints."""

import json
import os
import pty
import re
import shlex
import signal
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.service import Service
from hora.stack.control import Stack
from tests.command_table import PAGE, table, with_table
from tests.commands import HORA, LONG, environment, hora
from tests.unit.hora.played import Answer, ended, job, json_answer, page, study


def of_job(document: dict[str, object]) -> Answer:
    """A service with one job and no events."""
    return lambda request: json_answer(page() if request.url.path.endswith("events") else document)


def interrupted(_: httpx.Request) -> httpx.Response:
    raise KeyboardInterrupt


STUDY_OVER = study(complete=True, counts={"cancelled": 1}, cancel_requested_at="2030-01-02T03:04:05Z")
CODES = [
    (0, "show x --wait --json", of_job(ended())),
    (1, "show x", lambda _: json_answer({"title": "Not allowed"}, 403)),
    (1, "submit --dataset digits", lambda _: json_answer({"type": "urn:x:quota-exceeded", "title": "Full"}, 409)),
    (2, "show x", lambda _: json_answer({"title": "No", "errors": [{"field": "limit", "message": "no"}]}, 422)),
    (2, "ls --since yesterday", of_job(job())),
    (2, "ls --watch", of_job(job())),
    (100, "show x --wait --json", of_job(ended("failed", "stalled"))),
    (101, "submit --dataset digits --wait --json --timeout 0", of_job(job())),
    (101, "show x --wait", interrupted),
    (101, "studies show x --wait", interrupted),
    (101, "logs x -f", interrupted),
    (102, "show x", lambda _: json_answer({"title": "Job not found"}, 404)),
    (103, "show x --wait --json", of_job(ended("cancelled", "cancelled"))),
    (103, "studies show x --wait --json", of_job(STUDY_OVER)),
    (130, "ls", interrupted),
]


@pytest.mark.parametrize(("code", "command", "answer"), CODES, ids=lambda one: str(one) if one in range(256) else "")
def test_the_exit_code_says_how_the_command_ended(
    short_folder: Path,
    answer_with: Callable[[Answer], None],
    monkeypatch: pytest.MonkeyPatch,
    code: int,
    command: str,
    answer: Answer,
) -> None:
    answer_with(answer)
    monkeypatch.setattr("time.sleep", lambda _: None)
    result = hora(short_folder, *command.split())
    assert result.returncode == code, result.stderr
    if code == 101 and answer is interrupted:
        assert re.search(r"continues. Come back with `hora (studies show|show|logs) x", result.stderr)


def test_the_documentation_lists_every_exit_code_and_command() -> None:
    _, _, below = PAGE.read_text().partition("\n## Exit codes\n")
    assert {int(code) for code in re.findall(r"^\| `(\d+)` \|", below, re.MULTILINE)} == {code for code, *_ in CODES}
    assert with_table(PAGE.read_text()) == PAGE.read_text(), "python -m tests.command_table writes it anew"
    assert table() in PAGE.read_text()


def test_waiting_as_json_prints_an_object_a_line_and_output_into_a_pipe_is_complete_and_without_colour(
    short_folder: Path, answer_with: Callable[[Answer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    states = iter([job(), job(status="running", revision=2), ended()])
    answer_with(lambda _: json_answer(next(states)))
    monkeypatch.setattr("time.sleep", lambda _: None)
    result = hora(short_folder, "submit", "--dataset", "digits", "--wait", "--json")
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["running", "succeeded"]
    assert result.stderr == ""
    name = "n" * 500
    answer_with(of_job(page(job(name=name, status="running"))))
    listed = hora(short_folder, "ls", COLUMNS="80").stdout
    head, line = listed.splitlines()
    assert (name in line, "\x1b" in listed) == (True, False)
    assert (head, line) == (head.rstrip(), line.rstrip())


def test_ls_sends_its_options_as_parameters(short_folder: Path, answer_with: Callable[[Answer], None]) -> None:
    requests: list[httpx.Request] = []
    answer_with(lambda request: requests.append(request) or json_answer(page(job())))  # type: ignore[func-returns-value]
    filters = {
        "status": "running", "name": "chips", "label": "a:b", "owner": "ada", "project": "vision", "study": "0stu",
        "since": "2030-01-01T00:00:00Z", "until": "2030-01-02T00:00:00Z", "sort": "-priority", "search": "chip",
    }  # fmt: skip
    arguments = [word for name, value in filters.items() for word in (f"--{name}", value)]
    assert hora(short_folder, "ls", *arguments, "--limit", "7", "--json").returncode == 0
    assert dict(requests[0].url.params) == {**filters, "archived": "false", "limit": "7"}


def test_ls_writes_all_pages_as_csv(short_folder: Path, answer_with: Callable[[Answer], None]) -> None:
    pages = iter([{**page(job(id="0a", labels={"team": "=1+1"})), "next_cursor": "c"}, page(job(id="0b"))])
    answer_with(lambda _: json_answer(next(pages)))
    result = hora(short_folder, "ls", "--csv", "--column", "owner", "--column", "label.team")
    owner = job()["owner"]
    assert result.stdout.splitlines() == ["id,owner,label.team", f"0a,{owner},'=1+1", f"0b,{owner},"]
    for options, words in ((["--column", "colour"], "spec.NAME"), (["--csv", "--json"], "--csv excludes --json")):
        refused = hora(short_folder, "ls", *options)
        assert (refused.returncode, refused.stdout, words in refused.stderr) == (2, "", True)


OWN_CONTENT = {
    "filter": {"status": ["running", "failed"], "label": ["a:b", "c:d"], "owner": "ada", "search": None},
    "sort": "-priority", "columns": ["owner", "of a newer version", "label.a"],
}  # fmt: skip
VIEWS = [
    {"id": "0shared", "name": "rates", "project": "vision", "content": {}},
    {"id": "0own", "name": "rates", "project": None, "content": OWN_CONTENT},
    *({"id": f"0of{project}", "name": "speeds", "project": project, "content": {}} for project in ("x", "y")),
]


def test_ls_lists_the_jobs_of_a_saved_view(short_folder: Path, answer_with: Callable[[Answer], None]) -> None:
    asked: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        asked.append(request)
        return json_answer({"items": VIEWS, "next_cursor": None} if "views" in request.url.path else page(job()))

    answer_with(answer)
    result = hora(short_folder, "ls", "--view", "rates", "--owner", "bob", "--csv")
    assert result.stdout.splitlines()[0] == "id,owner,label.a"
    assert [(name, value) for name, value in asked[-1].url.params.multi_items() if name != "limit"] == [
        ("status", "running,failed"), ("label", "a:b"), ("label", "c:d"), ("owner", "bob"), ("archived", "false"),
        ("sort", "-priority"),
    ]  # fmt: skip
    several = hora(short_folder, "ls", "--view", "speeds")
    assert (several.returncode, "0ofx" in several.stderr, "0ofy" in several.stderr) == (2, True, True)
    unknown = hora(short_folder, "ls", "--view", "none")
    assert unknown.returncode == 2
    assert "rates, speeds" in unknown.stderr


@pytest.mark.parametrize(
    ("redirected", "code", "complaint"),
    [
        ("> /dev/full", 1, "The output cannot be written: No space left on device.\n"),
        (">&-", 0, ""),
        (">&{closed_pipe}", 1, ""),
    ],
    ids=["full", "closed", "closed pipe"],
)
@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["at its end", "while it prints"])
def test_output_that_goes_nowhere_is_no_fault_of_ours(
    short_folder: Path, redirected: str, code: int, complaint: str, unbuffered: str
) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    more = environment(short_folder, PYTHONUNBUFFERED=unbuffered)
    command = f"{shlex.join([*HORA, '--version'])} {redirected.format(closed_pipe=writer)}"
    process = subprocess.Popen(["bash", "-c", command], env=more, stderr=subprocess.PIPE, text=True, pass_fds=[writer])
    os.close(writer)
    with process:
        assert (process.communicate(timeout=120)[1], process.returncode) == (complaint, code)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_on_a_terminal_leaves_the_job(stack: Stack, client: Service) -> None:
    ours, theirs = pty.openpty()
    command = [*HORA, "submit", *LONG, "--set", "name=left alone", "--wait"]
    more = environment(stack.home, TERM="xterm-256color", COLUMNS="120")
    with subprocess.Popen(command, env=more, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        terminal_output = ""
        try:
            while "running" not in terminal_output:
                terminal_output += os.read(ours, 65536).decode(errors="replace")
            process.send_signal(signal.SIGINT)
            with suppress(OSError):  # at its end the other side is closed
                while True:
                    terminal_output += os.read(ours, 65536).decode(errors="replace")
            process.wait(120)
        finally:
            process.kill()
            os.close(ours)
    (remaining_job,) = client.jobs(name="left alone")
    assert process.returncode == 101
    assert f"The job continues. Come back with `hora show {remaining_job['id']} --wait`" in terminal_output
    assert terminal_output.rindex("\x1b[?25h") > terminal_output.index("\x1b[?25l")  # the cursor is there again
    assert remaining_job["ended_at"] is None
    client.cancel(remaining_job["id"])
    client.wait(remaining_job["id"], timeout_s=240)
