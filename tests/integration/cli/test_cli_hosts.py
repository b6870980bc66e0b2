"""The command line against a real stack, as an operator asks of its hosts."""

import json
import re
import subprocess

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import HORA, environment, hora


def test_hosts_are_listed_and_shown(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    assert host["name"] in hora(stack.home, "hosts").stdout
    assert json.loads(hora(stack.home, "hosts", "--json").stdout)["items"][0]["slots"][1]["index"] == 1
    shown = hora(stack.home, "hosts", "show", host["name"]).stdout
    assert f"cores        {host['info']['cores']}\n" in "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
    assert len(re.findall(r"^ +[01]  CPU share ", shown, re.MULTILINE)) == 2
    assert json.loads(hora(stack.home, "hosts", "show", host["name"], "--json").stdout)["name"] == host["name"]
    assert hora(stack.home, "hosts", "show", "nowhere").returncode == 102


def test_a_job_on_a_drained_host_waits_and_says_why(stack: Stack, client: Service) -> None:
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
            assert watching.wait(120) == 103
    finally:
        undrained = hora(stack.home, "hosts", "undrain", name, "--json")
    assert json.loads(undrained.stdout)["drained_at"] is None


def test_a_host_that_is_alive_is_not_forgotten(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    result = hora(stack.home, "hosts", "forget", host["name"])
    assert (result.returncode, result.stdout) == (1, "")
    assert result.stderr.startswith("Host is in use: ")
    assert hora(stack.home, "hosts", "forget", "nowhere").returncode == 102
