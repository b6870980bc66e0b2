"""The command line against a real stack, as an operator asks of its hosts."""

import json
import re

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import hora


def test_hosts_are_listed_and_shown(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    assert host["name"] in hora(stack.home, "hosts").stdout
    assert json.loads(hora(stack.home, "hosts", "--json").stdout)["items"][0]["slots"][1]["index"] == 1
    shown = hora(stack.home, "hosts", "show", host["name"]).stdout
    assert f"cores        {host['info']['cores']}\n" in "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
    assert len(re.findall(r"^ +[01]  CPU share ", shown, re.MULTILINE)) == 2
    assert json.loads(hora(stack.home, "hosts", "show", host["name"], "--json").stdout)["name"] == host["name"]
    alive = hora(stack.home, "hosts", "forget", host["name"])
    assert (alive.returncode, alive.stdout, alive.stderr.partition(":")[0]) == (1, "", "Host is in use")
    for command in ("show", "forget"):
        assert hora(stack.home, "hosts", command, "nowhere").returncode == 102


def test_a_job_on_a_drained_host_waits_and_says_why(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    name = host["name"]
    assert hora(stack.home, "hosts", "drain", name).stdout.startswith(f"{name} is drained; ")
    try:
        job_id = client.submit({"dataset": "digits", "name": "kept-waiting"})["id"]
        assert f"1st: {client.job(job_id)['waiting']['reason']}" in hora(stack.home, "ls", "--status", "queued").stdout
        assert hora(stack.home, "pause", job_id).stdout == f"{job_id} paused\n"
        assert json.loads(hora(stack.home, "resume", job_id, "--json").stdout)["paused_at"] is None
        assert hora(stack.home, "cancel", job_id).returncode == 0
        watched = hora(stack.home, "show", job_id, "--wait")
        assert (watched.returncode, "cancelled" in watched.stdout) == (103, True)
    finally:
        undrained = hora(stack.home, "hosts", "undrain", name, "--json")
    assert json.loads(undrained.stdout)["drained_at"] is None
