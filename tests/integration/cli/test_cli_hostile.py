"""No text in names, labels, lines or messages can control the terminal, in any command."""

import io
import json
import re
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.cli.app import main
from tests.command_table import commands
from tests.commands import hora
from tests.integration.cli.answers import answering
from tests.runs import run_folder
from tests.unit.hora.played import Answer, job, json_answer, page

# Markup, an emoji's name, a title for the window, a bell, a line from the start, C1, the writing turned around, no
# letter at all, and a line that looks like one of ours.
HOSTILE = "[red]x[/red][/] :skull: \x1b]0;owned\x07\r\x9b2J\x85\u202e\u2066\u2028\udcff\nspoofed"
DRIVES = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

COLOURS_AND_BARS = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\r")

# They ask no service.
OF_THIS_MACHINE = {"up", "down", "keys", "doctor", "export", "config set", "config unset", "config show"}
RUN = "run-folder"
FILE = "article.html"
NEEDS = {  # arguments of commands for which one word for each argument is not enough
    "submit": ("--dataset", "digits", "--wait"),
    "run": ("--folder", "examples", "--", "true"),
    "import": (RUN,),
    "clone": ("1", "--set", "epochs=1", "--dry-run"),
    "probe": ("--dataset", "digits"),
    "study": ("-", "--wait"),
    "dataset add": ("digits2", "x"),
    "dataset rm": ("digits2@1",),
    "article add": ("-", "--title", "x"),
    "article change": ("1", "-"),
    "article export": ("1", "-o", FILE),
    "set": ("1", "name=x", "label.team=y"),
    "rm": ("1", "--yes"),
    "studies rm": ("1", "--yes"),
    "studies set": ("1", "project=x"),
    "project set": ("1", "--max-slots", "1"),
}


def argv(path: tuple[str, ...], command: object) -> tuple[str, ...]:
    name = " ".join(path)
    if name in NEEDS:
        return (*path, *NEEDS[name])
    arguments = [one for one in command.params if one.param_type_name == "argument" and one.required]  # type: ignore[attr-defined]
    return (*path, *["1" for _ in arguments])


SERVICE_COMMANDS = [argv(path, command) for path, command in commands() if " ".join(path) not in OF_THIS_MACHINE]


@pytest.mark.parametrize("terminal", [False, True], ids=["into a pipe", "on a terminal"])
@pytest.mark.parametrize("arguments", SERVICE_COMMANDS, ids=" ".join)
def test_text_of_a_hostile_service_cannot_control_the_terminal(
    short_folder: Path,
    answer_with: Callable[[Answer], None],
    arguments: tuple[str, ...],
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer_with(answering(HOSTILE))
    if RUN in arguments:
        run_folder(short_folder / RUN)
    if RUN in arguments or FILE in arguments:
        monkeypatch.chdir(short_folder)
    study = "base: {dataset: digits}\ngrid: {gpus: [1]}\n"
    result = hora(short_folder, *arguments, stdin=study, **({"FORCE_COLOR": "1"} if terminal else {}))
    printed = result.stdout + result.stderr
    if terminal:
        printed = COLOURS_AND_BARS.sub("", printed)
    assert printed
    assert "Traceback" not in printed
    assert DRIVES.findall(printed) == []
    assert "\nspoofed" not in printed
    # The id of an upload is sent back, and this one cannot be.
    assert result.returncode in (0, 100, 103) or (RUN in arguments and "is not text in UTF-8" in printed), printed


@pytest.mark.parametrize(
    "command", ["ls", "ls --csv", "show x", "logs x", "studies show x", "report x", "hosts", "hosts show x"]
)
def test_markup_is_printed_as_text(short_folder: Path, answer_with: Callable[[Answer], None], command: str) -> None:
    answer_with(answering(HOSTILE))
    assert r"[red]x[/red][/] :skull: \x1b]0;owned\x07\x0d\x9b2J" in hora(short_folder, *command.split()).stdout


@pytest.mark.parametrize("status", [404, 409, 422, 500])
def test_text_of_a_hostile_problem_cannot_control_the_terminal(
    short_folder: Path, answer_with: Callable[[Answer], None], status: int
) -> None:
    wrong = [{"field": HOSTILE, "message": HOSTILE, "received": HOSTILE}] if status == 422 else None
    problem = {"title": HOSTILE, "detail": HOSTILE, "errors": wrong}
    answer_with(lambda _: httpx.Response(status, content=json.dumps(problem)))
    result = hora(short_folder, "show", "x")
    assert r"[red]x[/red][/] :skull: \x1b]0;owned\x07" in result.stderr
    assert DRIVES.findall(result.stderr) == []


def test_characters_that_the_output_cannot_encode_are_printed_as_escapes(answer_with: Callable[[Answer], None]) -> None:
    answer_with(lambda _: json_answer(page(job(id="0abc", name="Zoë 訓練"))))
    printed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    with redirect_stdout(printed):
        code = main(["ls"])
    printed.seek(0)
    assert (code, r"0abc  Zo\xeb \u8a13\u7df4" in printed.read()) == (0, True)
