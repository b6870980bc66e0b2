"""The library inside a script, outside Hora and inside."""

import ast
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from hora import run
from hora.run import checks, figures, stopping
from jobs.model.goals import METRIC_NAME
from trainer.script import channel
from trainer.script.channel import Channel
from trainer.script.child_environment import run_values
from trainer.script.control import Control, Fields

ROOT = Path(run.__file__).parents[2]
MODULES = sorted(Path(run.__file__).parent.glob("*.py"))
HOOKS = sorted(
    (ROOT / "hora" / "hooks").glob("*.py")
)  # of the script's own packages they know what is imported by then


def output(folder: Path, script: str, **variables: str) -> str:
    """What a script printed, run in a folder."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), **variables}
    command = [sys.executable, "-c", f"from hora import run\n{script}"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


class Inside:
    """What a rank gives its script."""

    def __init__(self, folder: Path, *, rank: int = 0, newest: Path | None = None) -> None:
        self.folder = folder
        self.channel, self.control = Channel(folder / "channel"), Control(folder / "control")
        launch = {
            "job_id": "j", "attempt": 1, "spec": {"params": {"lr": 0.1}},
            "script": {"plan": {"epochs": 2}, "train": "/data/train"},
        }  # fmt: skip
        folders = {name: str(folder / name) for name in ("channel", "control", "artifacts", "checkpoints")}
        folders |= {} if newest is None else {"latest_checkpoint": str(newest)}
        values = run_values(launch, rank=rank, size=2, local_rank=rank, folders=folders)
        (folder / "run.json").write_text(json.dumps(values))

    def play(self, script: str) -> tuple[str, list[dict[str, Any]]]:
        printed = output(self.folder, script, HORA_RUN_FILE=str(self.folder / "run.json"), RANK="7")
        return printed, list(self.channel.messages())


def test_it_works_with_an_old_python_and_no_packages() -> None:
    outside = set()
    for module in HOOKS:
        ast.parse(module.read_text(), feature_version=(3, 9))
    for module in MODULES:
        tree = ast.parse(module.read_text(), feature_version=(3, 9))
        names = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
        names |= {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        outside |= {name for name in names if name.partition(".")[0] not in sys.stdlib_module_names}
    own = {f"hora.run.{module.stem}" for module in MODULES}
    assert {name for name in outside if name != "hora.run" and name not in own} == {
        "cloudpickle", "hora.hooks.weights", "numpy",
    }  # fmt: skip
    assert not any(line.startswith("import numpy") for line in Path(figures.__file__).read_text().splitlines())


def test_both_sides_agree() -> None:
    assert stopping.Control._fields_ == Fields._fields_
    assert checks.METRIC_NAME.pattern == channel._METRIC_NAME.pattern == METRIC_NAME.strip("^$")


def test_outside_hora_it_prints_and_stops_nothing(tmp_path: Path) -> None:
    script = """
with run.phase("load"):
    pass
run.report(step=1, epoch=2, loss=0.5, n=3)
run.progress(1, 4)
for _ in range(2):
    run.alert("it  is\\nslow", "very", level="warning")
    run.alert("x", wait_seconds=60)
print(run.should_stop(), run.params, run.rank, run.size, run.dataset.train, run.latest_checkpoint())
"""
    slow, alerted = "alert: warning: it is slow: very\n", "alert: info: x\n"
    assert output(tmp_path, script, RANK="1", WORLD_SIZE="2") == (
        "report: step=1 epoch=2 loss=0.5 n=3\nprogress: done=1 total=4\n"
        f"{slow}{alerted}{slow}False {{}} 1 2 None None\n"
    )
    assert list(tmp_path.iterdir()) == []
    assert output(tmp_path, "print(run.artifacts)") == f"{tmp_path / 'artifacts'}\n"
    assert (tmp_path / "artifacts").is_dir()


def test_a_checkpoint_is_complete_or_not_there(tmp_path: Path) -> None:
    script = """
import os
for step, text in ((9, "old"), (10, "first"), (10, "again")):
    with run.checkpoint(step) as folder:
        (folder / "w").write_text(text)
try:
    with run.checkpoint(11) as folder:
        (folder / "w").write_text("half")
        raise KeyError
except KeyError:
    assert not folder.exists()
print(run.latest_checkpoint().name, flush=True)
with run.checkpoint(12) as folder:
    (folder / "w").write_text("half")
    os._exit(0)
"""
    assert output(tmp_path, script).splitlines()[-1] == "step-0000000010"
    newest = output(tmp_path, "print(run.latest_checkpoint())").strip()
    assert newest == str(tmp_path / "checkpoints" / "step-0000000010")
    assert Path(newest, "w").read_text() == "again"
    other = "with run.checkpoint(13) as folder: (folder / 'w').touch()\nprint(folder.exists())"
    assert output(tmp_path, other, RANK="1") == "False\n"
    assert not list(tmp_path.glob("checkpoints/step-*13"))


SAVE_AGAIN = """
import os, shutil
def save(step, text):
    with run.checkpoint(step) as folder:
        (folder / "w").write_text(text)
save(9, "older")
save(10, "old")
rename, calls = os.rename, []
def disturbed(source, target):
    calls.append(source)
    if len(calls) == 2:
        disturb()
    rename(source, target)
"""


def complete(folder: Path) -> dict[str, str]:
    """The text in each complete checkpoint."""
    return {path.name: (path / "w").read_text() for path in (folder / "checkpoints").glob("step-*")}


def test_a_step_that_is_saved_again_is_whole_after_a_crash_or_it_is_not_there(tmp_path: Path) -> None:
    output(tmp_path, f"{SAVE_AGAIN}save(10, 'new')\nsave(10, 'newest')")
    names = [path.name for path in (tmp_path / "checkpoints").iterdir()]
    assert sorted(names) == ["step-0000000009", "step-0000000010"]  # nothing is left behind
    assert complete(tmp_path)["step-0000000010"] == "newest"
    output(tmp_path, f"{SAVE_AGAIN}shutil.rmtree = lambda *args, **options: os._exit(0)\nsave(10, 'new')")
    assert complete(tmp_path) == {"step-0000000009": "older", "step-0000000010": "new"}
    output(tmp_path, f"{SAVE_AGAIN}disturb = lambda: os._exit(0)\nos.rename = disturbed\nsave(10, 'new')")
    assert complete(tmp_path) == {"step-0000000009": "older"}


def test_a_step_that_cannot_take_its_name_again_keeps_the_earlier_folder(tmp_path: Path) -> None:
    script = """
def disturb():
    raise OSError("the disk is gone")
os.rename = disturbed
try:
    save(10, "new")
except OSError:
    pass
"""
    output(tmp_path, SAVE_AGAIN + script)
    assert complete(tmp_path) == {"step-0000000009": "older", "step-0000000010": "old"}


@pytest.mark.parametrize(
    ("call", "error"),
    [
        ("run.report(step=-1)", "ValueError: step must be from 0 to 2147483647, not -1"),
        ("run.report(step=1.5)", "TypeError: step must be a whole number, not 1.5"),
        ("run.report(note='overfits')", "TypeError: note must be a number, not the text 'overfits': run.table keeps"),
        ("run.report(loss=None)", "TypeError: loss must be a number, not NoneType"),
        ("run.report(loss=10**400)", "ValueError: loss must be a number that a float can hold"),
        ("run.report(**{'a b': 1})", "ValueError: 'a b' is no name of a metric"),
        ("run.reprot", "AttributeError: hora.run has no 'reprot'; there are: alert, artifacts"),
        ("run.alert('a', level='fatal')", "ValueError: "),
        ("run.alert('a', wait_seconds=-1)", "ValueError: "),
    ],
)
def test_mistakes_are_named(call: str, error: str) -> None:
    kind, _, text = error.partition(": ")
    with pytest.raises((ValueError, TypeError, AttributeError)) as raised:
        eval(call)  # noqa: S307
    assert type(raised.value).__name__ == kind
    assert text in str(raised.value)


def test_inside_hora_it_tells_its_rank(tmp_path: Path) -> None:
    inside = Inside(tmp_path)
    script = """
with run.phase("load"):
    pass
run.report(step=1, loss=float("nan"))
with run.phase("validate"):
    pass
run.report(**{f"m{number}": number for number in range(70)})
with run.checkpoint(5) as folder:
    pass
assert run.latest_checkpoint() == folder.parent / "step-0000000005"
run.progress(1)
print(run.params, run.plan, run.rank, run.size, run.local_rank, run.dataset, run.artifacts.name)
"""
    printed, messages = inside.play(script)
    dataset = "Dataset(train='/data/train', validation=None)"
    assert printed == f"{{'lr': 0.1}} {{'epochs': 2}} 0 2 0 {dataset} artifacts\n"
    kinds = [message["kind"] for message in messages]
    assert kinds == ["phase", "report", "report", "report", "report", "checkpoint", "progress"]
    assert (messages[0]["name"], "phases" in messages[1]) == ("load", False)
    assert [list(message.get("phases", {})) for message in messages[2:5]] == [["validate"], [], []]
    numbers = {name: value for message in messages[2:5] for name, value in message["metrics"].items()}
    assert numbers == {f"m{number}": float(number) for number in range(70)}
    assert (tmp_path / "checkpoints" / "step-0000000005").is_dir()


def test_inside_hora_it_continues_and_stops_at_the_agreed_call(tmp_path: Path) -> None:
    newest = tmp_path / "step-0000000042"
    inside = Inside(tmp_path, rank=1, newest=newest)
    assert inside.play("print([run.should_stop() for _ in range(2)])") == ("[False, False]\n", [])
    assert (inside.control.calls, inside.control.has_answered_yes) == (2, False)
    inside.control.hold()
    inside.control.decide(3)
    printed, messages = inside.play(
        "print(run.latest_checkpoint(), [run.should_stop() for _ in range(4)])\nwith run.checkpoint(50) as folder: pass"
    )
    assert printed == f"{newest} [False, False, True, True]\n"
    assert [(message["kind"], message["step"]) for message in messages] == [("resumed", 42)]
    assert inside.control.has_answered_yes
    assert not (tmp_path / "checkpoints").exists()


def test_an_alert_is_a_message_that_fits_into_a_pipe_whatever_it_says(tmp_path: Path) -> None:
    inside = Inside(tmp_path, rank=1)
    script = """
run.alert("diverged", level="error", wait_seconds=60)
run.alert("diverged", "again", wait_seconds=60)
run.alert("t" * 200, "\\ud800\\0😀" * 1000)
"""
    printed, (first, second) = inside.play(script)
    assert printed == ""
    del first["at"]
    assert first == {"kind": "alert", "level": "error", "title": "diverged", "text": "", "wait_s": 60.0}
    assert second["title"] == "t" * 99 + "…"
    assert second["text"].startswith("?\0😀?\0😀")
    assert len(json.dumps(second, ensure_ascii=False).encode()) < 4096
