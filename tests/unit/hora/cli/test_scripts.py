"""What `hora run` refuses before it sends anything: it has no service here."""

from pathlib import Path

import pytest

from hora.cli.command_check import command_problems
from hora.cli.exit_codes import USAGE
from tests.commands import hora

FILES = {"train.py": 0o600, "lib/eval.py": 0o700, "run.py": 0o700, "run.sh": 0o600}


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (["python", "tran.py"], "tran.py is not among the files that are sent; did you mean train.py?"),
        (["python3", "-u", "-OO", "./other/file.py", "train.py"], "other/file.py is not among the files that are sent"),
        (["./train.py"], "train.py is no program; did you mean `python train.py`?"),
    ],
)
def test_a_wrong_command_is_named(command: list[str], message: str) -> None:
    (problem,) = command_problems({"command": command}, FILES)
    assert (problem.field, problem.message) == ("command", message)


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py"], ["python", "lib/../lib/eval.py"], ["./run.py"], ["python", "{params.script}.py"],
        ["python", "-m", "none.py"], ["python", "-c", "print(1)", "none.py"], ["python", "-um", "none.py"],
        ["python", "-W", "ignore", "none.py"], ["python", "/opt/none.py"], ["python", "../none.py"],
        ["python", "none", "none.py"], ["bash", "none.py"], ["python"], [], "python none.py", [1],
    ],
    ids=str,
)  # fmt: skip
def test_what_may_be_right_is_not_refused(command: object) -> None:
    assert command_problems({"command": command}, FILES) == []


def test_a_file_of_requirements_has_to_be_sent() -> None:
    spec = {"command": ["true"], "requirements": "requirements.txt"}
    assert [problem.field for problem in command_problems(spec, FILES)] == ["requirements"]
    assert command_problems(spec, {"requirements.txt": 0o600}) == []
    assert command_problems({"requirements": ["einops"]}, FILES) == []


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "Missing argument 'CMD'. Write it after the options, such as `hora run --gpus 2 -- python train.py`."),
        (["--set", "command=[python, b.py]", "--", "python", "a.py"], "give the command once"),
        (["--set", "command.0=sh", "--", "python", "a.py"], "give the command once"),
        (["--folder", ".", "--set", "code=.", "python", "a.py"], "give the code once"),
        (["python", "b.py"], "command: b.py is not among the files that are sent; did you mean a.py?"),
    ],
)
def test_a_run_that_cannot_be_meant_is_refused(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("")
    monkeypatch.chdir(tmp_path)
    refused = hora(tmp_path, "run", *arguments)
    assert refused.returncode == USAGE
    assert sentence in " ".join(refused.stderr.replace("│", "").split())
