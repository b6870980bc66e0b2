"""The commands on the pages for beginners, run as a reader would, against a real stack. Outputs agree in shape."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hora.service import Service
from tests.commands import environment
from tests.page_sessions import ID, Command, File, differences, session

pytestmark = pytest.mark.long("releases")

ROOT = Path(__file__).parents[2]
_IN_ORDER = ("README.md", "docs/how-to/*.md", "docs/tutorials/*.md")  # the tutorial stops the stack
PAGES = [str(page.relative_to(ROOT)) for pages in _IN_ORDER for page in sorted(ROOT.glob(pages))]
# What begins so cannot run here, and why.
CANNOT_RUN = {
    "make test": "it would run this test too",
    "make setup": "it installs this checkout",
    "sudo apt-get": "it needs root and a network",
    "export PATH": "it is for the environment of this checkout",
    "HORA_TOKEN=$(openssl rand -hex 16) docker compose": "it needs docker; `make compose-test` runs it",
    "docker compose": "it needs docker; `make compose-test` runs it",
    "hora keys": "it needs ssh-keygen; tests/integration/cli tries it",
    "chown -R 10001 /etc/hora/keys": "it needs root, and changes the machine",
    "chmod 700 /etc/hora/keys": "it needs root, and changes the machine",
    "hora config set": "it names another machine, or asks for a secret",
    "hora doctor": "what it finds depends on the machine",
    "hora submit examples/digits.yaml --set placement=spread": "it needs two hosts",
    "hora hosts drain gpu2": "there is no host gpu2",
    "hora hosts show gpu2": "there is no host gpu2",
    "hora hosts undrain gpu2": "there is no host gpu2",
    "hora submit chips.yaml": "it needs 4 GPUs, and the weights of ImageNet",
    "hora probe chips.yaml": "it needs 4 GPUs, and the weights of ImageNet",
    "hora study scaling.yaml": "it needs 4 GPUs, and the weights of ImageNet",
    "hora report STUDY -o scaling.png": "it needs 4 GPUs, and the weights of ImageNet",
}
INSTEAD = {"make demo": "hora up -d && hora submit examples/digits.yaml --wait"}  # the target does the same
_OVERLONG = "--dataset digits --epochs 40 --set early_stopping=null"  # gets the advice to stop early
# What a page speaks of, but does not say how to make.
BEFORE = {
    "docs/how-to/why-is-my-job-slow.md": f"hora submit {_OVERLONG} --gpus 2 --wait",
    "docs/how-to/your-own-images-on-4-gpus.md": "hora dataset add chips ~/pictures/chips --wait",
    "docs/how-to/a-team-on-three-hosts.md": "cp examples/digits.yaml spec.yaml",
}
_LIMIT_S = 1500  # only a command that never ends reaches it
TRAIN = """
from hora import run

run.report(epoch=1, loss=1.0, val_iou=0.5 + run.params.get("lr", 0))
"""


class Reader:
    """A person with a shell, who types what the pages say with the ids that they see."""

    def __init__(self, home: Path, folder: Path) -> None:
        (folder / "bin").mkdir()
        command = folder / "bin" / "hora"
        command.write_text(f'#!/bin/sh\nexec {sys.executable} -m hora "$@"\n')
        command.chmod(0o755)
        own = {
            "HORA_PORT": "0", "HORA_SLOTS": "2", "HORA_CODE": "on", "HOME": str(folder), "PYTHONPATH": str(ROOT),
            "PATH": f"{command.parent}:{os.environ['PATH']}", "COLUMNS": "200",
        }  # fmt: skip
        self._own = self._environment = environment(home, **own)
        self._home, self._folder, self._here = home, folder, folder
        self.ids: dict[str, str] = {}
        self._outputs: dict[str, subprocess.CompletedProcess[str]] = {}  # of studies, which take long

    def run(self, text: str) -> subprocess.CompletedProcess[str]:
        """Type a command. A study that was submitted before is not submitted again."""
        text = self._with_own_names(text)
        if text.startswith("cd "):
            self._here /= text.removeprefix("cd ")
            text = "pwd"
        if not text.startswith("hora study ") or text not in self._outputs:
            self._outputs[text] = self._in_shell(text)
        return self._outputs[text]

    def write(self, file: File) -> None:
        """Save a file of a page."""
        (self._here / file.name).write_text(file.content)

    def leave(self) -> None:
        """Begin a new page: in the first folder, without the variables and the ids of the last page."""
        self._environment, self._here, self.ids = self._own, self._folder, {}

    def note_ids(self, command: Command, printed: str) -> None:
        """Note which id stands for one of the page."""
        for shown in command.shown:
            for theirs, own in zip(ID.findall(shown), ID.findall(printed), strict=False):
                self.ids[theirs] = own

    def _in_shell(self, text: str) -> subprocess.CompletedProcess[str]:
        exported = text.startswith("export ")
        done = subprocess.run(
            ["bash", "-c", f"{text}; env -0" if exported else text],
            env=self._environment, cwd=self._here, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            timeout=_LIMIT_S, check=False,
        )  # fmt: skip
        if exported:
            self._environment = dict(line.split("=", 1) for line in done.stdout.split("\0") if "=" in line)
            done.stdout = ""
        return done

    def _with_own_names(self, text: str) -> str:
        text = text.replace(".venv/bin/", "").replace("~/.local/share/hora", str(self._home))
        for theirs, own in self.ids.items():
            text = text.replace(theirs, own)
        if "127.0.0.1:8400" in text:
            text = text.replace("http://127.0.0.1:8400", (self._home / "url").read_text().strip())
        if not re.search(r"\b(ID|NEW_ID|STUDY)\b", text):
            return text
        with Service((self._home / "url").read_text().strip(), (self._home / "token").read_text().strip()) as client:
            study, job = next(iter(client.studies()), {}).get("id", ""), next(iter(client.jobs()))["id"]
        return re.sub(r"\bSTUDY\b", study, re.sub(r"\b(NEW_ID|ID)\b", job, text))


@pytest.fixture(scope="module")
def reader(session_folder: Path) -> Iterator[Reader]:
    folder = session_folder / "reader"
    for name in ("cracked", "whole"):
        (folder / "pictures" / "chips" / name).mkdir(parents=True)
        for number in range(8):
            pixels = np.full((8, 8), 16 * number, np.uint8)
            Image.fromarray(pixels).save(folder / "pictures" / "chips" / name / f"{number}.png")
    (folder / "my-project").mkdir()
    (folder / "my-project" / "train.py").write_text(TRAIN)
    (folder / "examples").symlink_to(ROOT / "examples")
    person = Reader(session_folder / "pages", folder)
    yield person
    person.run("hora down")


@pytest.mark.timeout(1800)  # many commands, some of which train
@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_word_for_word(reader: Reader, page: str, subtests: pytest.Subtests) -> None:
    reader.leave()
    assert reader.run("hora up -d").returncode == 0
    if page in BEFORE:
        prepared = reader.run(BEFORE[page])
        assert prepared.returncode == 0, prepared.stderr
    last: dict[int, list[str]] = {}  # what each block printed
    steps = session((ROOT / page).read_text())
    for step in steps:
        if isinstance(step, File):
            reader.write(step)
            continue
        if _why_not(step.text):
            continue
        with subtests.test(line=step.line, command=step.text):
            done = reader.run(INSTEAD.get(step.text, step.text))
            assert done.returncode == 0, done.stderr + done.stdout
            reader.note_ids(step, done.stdout)
            last.setdefault(step.block, []).append(done.stdout)
    for step in steps:
        if isinstance(step, Command) and step.block in last:
            for shown in step.shown:
                printed = last[step.block]
                with subtests.test(line=step.line, shown=shown.partition("\n")[0]):
                    missing = min((differences(shown, text) for text in printed), key=len)
                    assert missing == [], "\n---\n".join(printed)


def test_what_cannot_run_is_on_a_page() -> None:
    commands = [step.text for page in PAGES for step in session((ROOT / page).read_text()) if isinstance(step, Command)]
    assert [start for start in CANNOT_RUN if not any(text.startswith(start) for text in commands)] == []
    assert INSTEAD.keys() <= set(commands)
    assert len([text for text in commands if not _why_not(text)]) > 40


def _why_not(text: str) -> str | None:
    return next((reason for start, reason in CANNOT_RUN.items() if text.startswith(start)), None)
