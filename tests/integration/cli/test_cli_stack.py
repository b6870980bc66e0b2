"""The command line as it starts, stops and examines a stack of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hora.doctor.machine import ssh_keys
from hora.home import Home
from hora.service import Service
from hora.stack.control import Stack
from hora.stack.processes import attempts_of
from tests.commands import LONG, environment, hora, hora_process
from tests.nvml import build_stub
from tests.waiting import until


def test_doctor_finds_a_healthy_stack_and_that_there_is_none(stack: Stack, short_folder: Path) -> None:
    result = hora(stack.home, "doctor", "--json")
    levels = {check["check"]: check["level"] for check in json.loads(result.stdout)["items"]}
    assert "fail" not in levels.values()
    here = {"python", "versions", "home", "disk space", "data roots", "processes", "training", "gpus", "scripts"}
    assert set(levels) == here | {"api", "database", "broker", "hosts", "queue", "restarts", "clock"}
    assert result.returncode == 0
    none = hora(short_folder, "doctor")
    assert (none.returncode, "hora up -d" in none.stdout) == (1, True)


def test_keys_are_made_once_and_pass_the_doctor(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = short_folder / "ssh"
    monkeypatch.setenv("HORA_SSH_DIR", str(folder))
    result = hora(short_folder, "keys", "--json", HORA_SSH_DIR=str(folder))
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["items"] == [str(folder / name) for name in sorted(os.listdir(folder))]
    assert [finding.level for finding in ssh_keys()] == ["ok"]
    again = hora(short_folder, "keys", str(folder))
    assert (again.returncode, "is there already" in again.stderr) == (1, True)


@pytest.mark.parametrize(
    ("code", "unused"),
    [
        ("print('0')", {"httpx2", "sqlalchemy", "psycopg", "pydantic", "rich.console", "plotille"}),
        (
            "print(hora.cli.app.main(['ls', '--json']))",
            {"hora.cli.studies", "hora.cli.people", "hora.stack.local", "jobs.model.spec", "pydantic_settings"},
        ),
    ],
    ids=["start", "ls"],
)
def test_the_command_line_imports_only_what_a_command_needs(stack: Stack, code: str, unused: set[str]) -> None:
    code = f"import sys, hora.cli.app; {code}; print(sorted({unused} & set(sys.modules)))"
    result = subprocess.run(
        [sys.executable, "-c", code], env=environment(stack.home), capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-2:] == ["0", "[]"]


def test_down_stops_a_running_job_and_all_parts_that_up_started(short_folder: Path) -> None:
    home = short_folder / "home"
    driver = build_stub(short_folder / "driver")  # a GPU that TensorFlow, which is built for CPUs here, cannot use
    why = "1 GPU (Stub H200) is here, but TensorFlow 2.18.1 is built for CPUs"
    more = {"HORA_PORT": "0", "HORA_SLOTS": "1", "LD_LIBRARY_PATH": str(driver.parent), "NVML_STUB": "w"}
    started = hora_process(home, "up", "-d", "--json", **more)
    try:
        assert started.returncode == 0, started.stderr
        url = json.loads(started.stdout)["url"]
        again = hora_process(home, "up", **more)
        assert again.returncode == 0
        told, problem, link = again.stdout.splitlines()
        assert problem.startswith(why)
        assert told.startswith(f"Hora is already running at {url} ")
        assert f"{url}/login?code=" in link
        assert f"{url}/login?code=" in started.stderr
        assert "code=hora_" not in "".join(file.read_text() for file in (home / "logs").iterdir())
        job_id = hora_process(home, "submit", *LONG).stdout.strip()
        with Service(url, Stack(home).token) as client:
            until(lambda: (client.job(job_id)["progress"]["step"] or 0) > 20, what="a trained step")
        shown = hora_process(home, "show", job_id).stdout
        assert "1 CPU slot" in shown
        assert why in " ".join(shown.split())
    finally:
        stopped = hora_process(home, "down")
    assert stopped.returncode == 0
    assert stopped.stdout.splitlines() == [
        "worker stopped",
        "1 running attempt stopped",
        "api stopped",
        "broker stopped",
        "database stopped",
    ]
    assert not attempts_of(home)
    assert not Home.at(home).is_kept()
    assert hora_process(home, "down").stdout == "nothing was running\n"
    assert hora_process(home, "ls").returncode == 1


def test_an_invalid_setting_is_reported_in_one_sentence(short_folder: Path) -> None:
    result = hora(short_folder, "up", "-d", HORA_PORT="many")
    assert result.returncode == 1
    assert result.stderr.startswith("HORA_PORT is not valid")
    assert len(result.stderr.splitlines()) == 1
