"""Shell completion: what is proposed."""

import threading
from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.cli import completion
from tests.commands import hora
from tests.unit.hora.played import Answer, job, json_answer, page


def proposals(home: Path, line: str, shell: str = "bash") -> list[str]:
    """What the shell gets for the last word of a line."""
    words = line.split(" ")
    variables = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1), "_TYPER_COMPLETE_ARGS": line}
    action = {"_TYPER_COMPLETE_FISH_ACTION": "get-args", "_TYPER_COMPLETE_WORD_TO_COMPLETE": words[-1]}
    return hora(home, _HORA_COMPLETE=f"complete_{shell}", **variables, **action).stdout.strip().splitlines()


def jobs(_: httpx.Request) -> httpx.Response:
    names = {"0aaa": "[/]", "0abb": "digits", "1xyz": "digits", "0a \x1b[2J": "no word for a shell"}
    return json_answer(page(*(job(id=name, name=about) for name, about in names.items())))


def test_ids_are_proposed_from_the_service(short_folder: Path, answer_with: Callable[[Answer], None]) -> None:
    answer_with(jobs)
    assert proposals(short_folder, "hora show 0a") == ["0aaa", "0abb"]
    assert proposals(short_folder, "hora cancel 1") == ["1xyz"]
    assert proposals(short_folder, "hora stu") == ["study", "studies"]
    assert proposals(short_folder, "hora ls --status r") == ["running"]


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_names_cannot_run_commands_in_the_shell(
    short_folder: Path, answer_with: Callable[[Answer], None], shell: str
) -> None:
    names = [r"\$(touch x)", r"\`touch x\`", r"\" ; touch x ; ", "it's", "訓練 ok", "[/]"]
    answer_with(lambda _: json_answer(page(*(job(id=f"0a{at}", name=name) for at, name in enumerate(names)))))
    told_more = "\n".join(proposals(short_folder, "hora show 0a", shell))
    for text in ("訓練 ok, queued", "it_s, queued", "[/], queued", "__ ; touch x"):
        assert text in told_more
    assert not {"\\", "`", "$"} & {*told_more}


def test_completion_is_silent_without_a_service_and_does_not_wait_for_a_slow_one(
    short_folder: Path, answer_with: Callable[[Answer], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    result = hora(short_folder, _HORA_COMPLETE="complete_bash", COMP_WORDS="hora show 0", COMP_CWORD="2",
                HORA_URL="http://127.0.0.1:9", HORA_TOKEN="x")  # fmt: skip
    assert (result.stdout.strip(), result.stderr) == ("", "")
    answers = threading.Event()

    def slowly(request: httpx.Request) -> httpx.Response:
        answers.wait(5)
        return jobs(request)

    answer_with(slowly)
    monkeypatch.setattr(completion, "TIMEOUT_S", 0.05)
    try:
        assert proposals(short_folder, "hora show 0a") == []
    finally:
        answers.set()
