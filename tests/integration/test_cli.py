"""The command line against a real stack: what is printed where, and the exit codes."""

import json
import os
import pty
import re
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from hora.client import Client
from hora.doctor_machine import ssh_keys
from hora.home import Home
from hora.processes import attempts_of
from hora.stack import Stack
from tests.waiting import until

# Trains for as long as a test needs it to.
LONG = ("--dataset", "digits", "--epochs", "100000", "--set", "early_stopping=null")
SHORT = ("--dataset", "digits", "--gpus", "2", "--batch-size", "64", "--epochs", "3")
HORA = (sys.executable, "-m", "hora")
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def environment(home: Path, **more: str) -> dict[str, str]:
    """Ours, without what would point the command line elsewhere."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith("HORA_")}
    return {**ours, "HORA_HOME": str(home), **more}


def hora(home: Path, *arguments: str, given: str = "", **more: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    return subprocess.run(
        [*HORA, *arguments],
        env=environment(home, **more),
        input=given,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


def in_terminal(home: Path, *arguments: str) -> tuple[int, str]:
    """Run one command on a terminal of its own; returns its exit code and all that it drew."""
    ours, theirs = pty.openpty()
    more = {"TERM": "xterm-256color", "COLUMNS": "120"}
    process = subprocess.Popen(
        [*HORA, *arguments], env=environment(home, **more), stdin=theirs, stdout=theirs, stderr=theirs
    )
    os.close(theirs)
    drawn = b""
    try:
        while True:
            ready, _, _ = select.select([ours], [], [], 240)
            assert ready, "the command printed nothing for 4 minutes"
            try:
                drawn += os.read(ours, 65536)
            except OSError:  # the other end is closed
                return process.wait(30), drawn.decode()
    finally:
        process.kill()
        process.wait()
        os.close(ours)


@pytest.fixture(scope="module")
def job(stack: Stack) -> Mapping[str, Any]:
    """A job that has trained to its end."""
    done = hora(stack.home, "submit", *SHORT, "--set", "name=shared", "--wait", "--json")
    assert done.returncode == 0, done.stderr
    found: Mapping[str, Any] = json.loads(done.stdout)
    return found


def test_submit_and_wait_prints_a_line_an_epoch_and_the_results(stack: Stack) -> None:
    done = hora(stack.home, "submit", *SHORT, "--wait")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("epoch ")] == ["1/3", "2/3", "3/3"]
    # Every epoch comes before the word of the end.
    end = lines.index("succeeded")
    assert lines[end - 1].startswith("epoch 3/3  loss ")
    results = dict(re.split(r"\s{2,}", line.strip(), maxsplit=1) for line in lines[end + 2 :])
    assert results["status"] == "succeeded"
    assert results["epochs run"] == "3 of 3"
    assert set(results) >= {"best epoch", "val accuracy", "val loss", "test accuracy", "samples/s", "training time"}
    assert not CONTROL.search(done.stdout + done.stderr)


def test_submit_and_wait_on_a_terminal_draws_a_bar(stack: Stack) -> None:
    # Seconds of training: a shorter job may be over between two looks at it.
    longer = ("--epochs", "60", "--set", "early_stopping=null")
    code, drawn = in_terminal(stack.home, "submit", *SHORT, *longer, "--wait")
    assert code == 0
    assert "\x1b[" in drawn
    assert "running" in drawn
    assert re.search(r"best epoch\S* +\S*\d", drawn)


def test_json_is_the_job_and_nothing_else(job: Mapping[str, Any]) -> None:
    assert job["status"] == "succeeded"
    assert job["summary"]["epochs_run"] == 3


def test_show_gives_the_figures_of_the_api(stack: Stack, client: Client, job: Mapping[str, Any]) -> None:
    assert json.loads(hora(stack.home, "show", job["id"], "--json").stdout) == client.job(job["id"])
    shown = hora(stack.home, "show", job["id"]).stdout
    assert f"val accuracy   {job['summary']['val_accuracy']:.4f}" in shown
    assert hora(stack.home, "show", job["id"], "--wait").returncode == 0


def test_ls_filters(stack: Stack, job: Mapping[str, Any]) -> None:
    found = json.loads(hora(stack.home, "ls", "--name", "shared", "--json").stdout)["items"]
    assert [one["id"] for one in found] == [job["id"]]
    assert job["id"] in hora(stack.home, "ls", "--status", "succeeded").stdout
    assert job["id"] not in hora(stack.home, "ls", "--status", "failed").stdout


def test_logs_of_both_ranks_or_one(stack: Stack, job: Mapping[str, Any]) -> None:
    every = hora(stack.home, "logs", job["id"], "-f").stdout
    assert {line.partition("]")[0] for line in every.splitlines()} >= {"[0", "[1"}
    one = [
        json.loads(line) for line in hora(stack.home, "logs", job["id"], "--rank", "1", "--json").stdout.splitlines()
    ]
    assert one
    assert {line["rank"] for line in one} == {1}


def test_metrics_are_plotted(stack: Stack, job: Mapping[str, Any]) -> None:
    plotted = hora(stack.home, "metrics", job["id"])
    assert "(loss)" in plotted.stdout
    assert "val_accuracy" in plotted.stdout
    series = json.loads(hora(stack.home, "metrics", job["id"], "--json").stdout)["series"]
    assert {len(one["x"]) for one in series if one["name"] == "val_loss"} == {3}


def test_clone_changes_what_it_is_told(stack: Stack, client: Client, job: Mapping[str, Any]) -> None:
    done = hora(stack.home, "clone", job["id"], "--set", "epochs=1", "--set", "dataset.validation=0.2")
    assert done.returncode == 0, done.stderr
    copy = client.wait(done.stdout.strip(), timeout_s=120)
    assert (copy["spec"]["epochs"], copy["spec"]["dataset"]["validation"]) == (1, 0.2)
    assert copy["spec"]["gpus"] == 2


def test_hosts(stack: Stack, client: Client) -> None:
    (host,) = client.hosts()
    assert host["name"] in hora(stack.home, "hosts").stdout
    assert json.loads(hora(stack.home, "hosts", "--json").stdout)["items"][0]["slots"][1]["index"] == 1


def test_cancel_ends_the_wait_with_103(stack: Stack) -> None:
    submitted = hora(stack.home, "submit", *LONG)
    assert submitted.returncode == 0, submitted.stderr
    job_id = submitted.stdout.strip()
    assert hora(stack.home, "cancel", job_id).returncode == 0
    waited = hora(stack.home, "show", job_id, "--wait")
    assert waited.returncode == 103
    assert "cancelled" in waited.stdout


def test_a_failed_job_ends_the_wait_with_100(stack: Stack) -> None:
    done = hora(stack.home, "submit", *LONG, "--set", "time_limit_s=0.5", "--wait")
    assert done.returncode == 100
    assert "failed (time_limit)" in done.stdout


def test_a_wait_has_a_limit(stack: Stack, client: Client) -> None:
    done = hora(stack.home, "submit", *LONG, "--set", "name=limited", "--wait", "--timeout", "0.5")
    assert done.returncode == 101
    (left,) = client.jobs(name="limited")
    assert f"hora show {left['id']} --wait" in done.stderr
    client.cancel(left["id"])
    client.wait(left["id"], timeout_s=60)


@pytest.fixture
def heeds_ctrl_c() -> Iterator[None]:
    """Children of this process can be interrupted, also where it is a shell's background job, which ignores SIGINT."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_ctrl_c_leaves_the_job_and_says_how_to_come_back(stack: Stack, client: Client) -> None:
    command = [*HORA, "submit", *LONG, "--set", "name=detached", "--wait"]
    with subprocess.Popen(
        command, env=environment(stack.home), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(("queued", "launching"))
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=30)
        finally:
            process.kill()
    (left,) = client.jobs(name="detached")
    assert process.returncode == 101
    assert f"The job goes on. Come back with `hora show {left['id']} --wait`" in told
    client.cancel(left["id"])
    client.wait(left["id"], timeout_s=60)


@pytest.mark.parametrize(
    ("arguments", "fields"),
    [
        (("--dataset", "digits", "--gpus", "0", "--set", "colour=red"), ["gpus", "colour"]),
        (("--dataset", "digits", "--model", "no_such_net"), ["model.name"]),
        (("--dataset", "digits", "--gpus", "64", "--batch-size", "1"), ["gpus"]),
        (("-", "--gpus", "two"), []),
        (("/no/such/file",), ["/no/such/file"]),
        ((), []),
    ],
    ids=["by us", "by the service", "more gpus than there are", "usage", "file", "nothing"],
)
def test_what_is_not_valid_is_2_and_names_every_field(
    stack: Stack, arguments: tuple[str, ...], fields: list[str]
) -> None:
    done = hora(stack.home, "submit", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert [line.strip().partition(":")[0] for line in done.stderr.splitlines() if line.startswith("  ")] == fields
    assert "Traceback" not in done.stderr


def test_a_spec_from_standard_input(stack: Stack, client: Client) -> None:
    done = hora(
        stack.home, "submit", "-", "--set", "epochs=1", "--json", given="dataset: digits\nlearning_rate: 1e-3\n"
    )
    assert done.returncode == 0, done.stderr
    made = json.loads(done.stdout)
    assert (made["spec"]["learning_rate"], made["spec"]["epochs"]) == (0.001, 1)
    assert client.wait(made["id"], timeout_s=120)["status"] == "succeeded"


def test_a_job_on_a_drained_host_waits_and_says_why(stack: Stack, client: Client) -> None:
    (host,) = client.hosts()
    name = host["name"]
    assert hora(stack.home, "hosts", "drain", name).stdout.startswith(f"{name} is drained; ")
    try:
        job_id = client.submit({"dataset": "digits", "name": "kept-waiting"})["id"]
        assert f"1st: {client.job(job_id)['waiting']['reason']}" in hora(stack.home, "ls", "--status", "queued").stdout
        watch = [*HORA, "show", job_id, "--wait"]
        with subprocess.Popen(watch, env=environment(stack.home), stdout=subprocess.PIPE, text=True) as watching:
            assert watching.stdout is not None
            assert watching.stdout.readline().startswith("queued, 1st: needs 1 slot")
            assert hora(stack.home, "pause", job_id).stdout == f"{job_id} paused\n"
            assert watching.stdout.readline() == "queued (paused)\n"
            resumed = hora(stack.home, "resume", job_id, "--json")
            assert json.loads(resumed.stdout)["paused_at"] is None
            assert watching.stdout.readline().startswith("queued, 1st: needs 1 slot")
            client.cancel(job_id)
            assert "cancelled" in watching.stdout.read()
            assert watching.wait(30) == 103
    finally:
        undrained = hora(stack.home, "hosts", "undrain", name, "--json")
    assert json.loads(undrained.stdout)["drained_at"] is None


def test_a_host_that_is_alive_is_not_forgotten(stack: Stack, client: Client) -> None:
    (host,) = client.hosts()
    done = hora(stack.home, "hosts", "forget", host["name"])
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Host is in use: ")
    assert hora(stack.home, "hosts", "forget", "nowhere").returncode == 102


@pytest.mark.parametrize("command", ["show", "logs", "metrics", "cancel", "pause", "clone"])
def test_an_unknown_job_is_102(stack: Stack, command: str) -> None:
    done = hora(stack.home, command, "nosuchjob000")
    assert done.returncode == 102
    assert done.stdout == ""
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ({}, "No stack runs in"),
        ({"HORA_URL": "http://127.0.0.1:9", "HORA_TOKEN": "x"}, "http://127.0.0.1:9 gives no answer"),
        ({"HORA_URL": "no address", "HORA_TOKEN": "x"}, "No address gives no answer"),
    ],
)
def test_no_stack_is_one_sentence(short_folder: Path, more: dict[str, str], told: str) -> None:
    done = hora(short_folder, "ls", **more)
    assert done.returncode == 1
    assert done.stderr.startswith(told)
    assert len(done.stderr.splitlines()) == 1


def test_a_wrong_token_is_one_sentence(stack: Stack, short_folder: Path) -> None:
    done = hora(short_folder, "ls", HORA_URL=stack.url, HORA_TOKEN="wrong")
    assert done.returncode == 1
    assert "Check HORA_TOKEN" in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_the_local_token_goes_to_the_local_stack_alone(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from hora.connection import connect

    home = Home.at(short_folder / "home")
    home.create()
    home.token("local")
    home.url_file.write_text("http://127.0.0.1:1\n")
    monkeypatch.setenv("HORA_HOME", str(home.path))
    monkeypatch.delenv("HORA_TOKEN", raising=False)
    for url, token in ((None, "Bearer local"), ("http://127.0.0.1:1", "Bearer local"), ("http://elsewhere", None)):
        monkeypatch.setenv("HORA_URL", url) if url else monkeypatch.delenv("HORA_URL", raising=False)
        with connect() as client:
            assert client._http.headers.get("Authorization") == token


def test_doctor_finds_a_healthy_stack(stack: Stack) -> None:
    done = hora(stack.home, "doctor", "--json")
    found = {one["check"]: one["level"] for one in json.loads(done.stdout)["items"]}
    assert "fail" not in found.values()
    here = {"python", "versions", "home", "disk space", "data roots", "processes", "training"}
    assert set(found) == here | {"api", "database", "broker", "hosts", "queue", "restarts", "clock"}
    assert done.returncode == 0


def test_keys_are_made_once_and_pass_the_doctor(short_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = short_folder / "ssh"
    done = hora(short_folder, "keys", "--json", HORA_SSH_DIR=str(folder))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["items"] == [str(folder / name) for name in sorted(os.listdir(folder))]
    monkeypatch.setenv("HORA_SSH_DIR", str(folder))
    assert [finding.level for finding in ssh_keys()] == ["ok"]
    again = hora(short_folder, "keys", str(folder))
    assert again.returncode == 1
    assert "is there already" in again.stderr


def test_doctor_fails_without_a_stack(short_folder: Path) -> None:
    done = hora(short_folder, "doctor")
    assert done.returncode == 1
    assert "hora up -d" in done.stdout


def test_the_command_line_starts_without_what_it_does_not_use() -> None:
    heavy = {"sqlalchemy", "psycopg", "pydantic", "rich.progress", "plotille"}
    code = f"import sys, hora.cli; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_up_and_down_with_a_job_between(short_folder: Path) -> None:
    home = short_folder / "home"
    more = {"HORA_PORT": "0", "HORA_SLOTS": "1"}
    started = hora(home, "up", "-d", "--json", **more)
    try:
        assert started.returncode == 0, started.stderr
        url = json.loads(started.stdout)["url"]
        again = hora(home, "up", **more)
        assert again.returncode == 0
        assert again.stdout.splitlines()[-1].startswith(f"Hora is already running at {url} ")
        job_id = hora(home, "submit", *LONG).stdout.strip()
        with Client(url, Stack(home).token) as client:
            until(lambda: (client.job(job_id)["progress"]["step"] or 0) > 20, within_s=90, what="a trained step")
    finally:
        stopped = hora(home, "down")
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
    assert hora(home, "down").stdout == "nothing was running\n"
    assert hora(home, "ls").returncode == 1


def test_a_setting_that_is_not_valid_is_one_sentence(short_folder: Path) -> None:
    done = hora(short_folder, "up", "-d", HORA_PORT="many")
    assert done.returncode == 1
    assert done.stderr.startswith("HORA_PORT is not valid")
    assert len(done.stderr.splitlines()) == 1
