"""The template that attempts are forked from: what makes a new one, and what is done without one."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from jobs.runtime.processes import ProcessId, command_line, environment, pids
from jobs.runtime.settings import Settings
from tests.waiting import until
from worker.nursery.keeper import Nursery


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder from which the template's Python imports first."""
    folder = tmp_path / "modules"
    folder.mkdir()
    monkeypatch.setenv("PYTHONPATH", str(folder), prepend=os.pathsep)
    return folder


@pytest.fixture
def nursery(settings: Settings, modules: Path) -> Iterator[Nursery]:
    nursery = Nursery(settings, threads=1)
    yield nursery
    nursery.close()


def templates_of(modules: Path) -> list[int]:
    """The templates whose Python looks into this folder."""
    own = f"PYTHONPATH={modules}".encode()
    return [
        pid
        for pid in pids()
        if b"worker.nursery.template" in command_line(pid) and any(one.startswith(own) for one in environment(pid))
    ]


def forked(nursery: Nursery) -> int | None:
    with open(os.devnull, "ab") as log:
        return nursery.fork_supervisor(["supervisor"], {}, {}, log=log.fileno())


def test_a_template_has_one_thread_and_usual_signals_and_its_death_is_noticed(nursery: Nursery, modules: Path) -> None:
    before = signal.signal(signal.SIGQUIT, signal.SIG_IGN)  # as a shell does in the background
    nursery.once()
    signal.signal(signal.SIGQUIT, before)
    nursery.start()
    assert forked(nursery) is None, "it is not ready, and nobody waits for it"
    until(lambda: nursery.memory_bytes, what="a template")
    (template,) = templates_of(modules)
    threads = os.listdir(f"/proc/{template}/task")
    assert len(threads) == 1
    status = Path(f"/proc/{template}/status").read_text()
    ignored = int(next(line.split()[1] for line in status.splitlines() if line.startswith("SigIgn:")), 16)
    assert not ignored >> (signal.SIGQUIT - 1) & 1

    os.kill(template, signal.SIGKILL)
    until(lambda: nursery.memory_bytes is None, what="a look at the template that died")
    assert forked(nursery) is None


def test_a_changed_file_makes_a_new_template(nursery: Nursery, modules: Path) -> None:
    library = modules / "sitecustomize.py"
    library.write_text("import json\n")
    nursery.start()
    until(lambda: nursery.memory_bytes, what="a template")
    (template,) = templates_of(modules)
    library.write_text("import  json\n")
    assert forked(nursery) is None
    assert ProcessId.of(template) is None
    until(lambda: nursery.memory_bytes, what="another template")
    assert template not in templates_of(modules)


def test_ranks_start_cold_if_imports_fail(nursery: Nursery, modules: Path, caplog: pytest.LogCaptureFixture) -> None:
    (modules / "tensorflow.py").write_text("raise RuntimeError('broken')\n")
    nursery.start()
    until(lambda: "could not import what ranks import" in caplog.text, what="a word about it")
    assert forked(nursery) is None
    assert not templates_of(modules), "it is not tried again at once"
