"""`hora project` against a real stack, whose worker holds jobs to their projects' quotas."""

import json

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import LONG, hora
from tests.waiting import until


def test_a_project_is_created_changed_and_archived(stack: Stack, client: Service) -> None:
    limits = ("--max-slots", "2", "--share", "2.5", "--max-priority", "60", "--idle", "below=2.5,for_s=600,action=stop")
    created = json.loads(hora(stack.home, "project", "create", "vision", *limits, "--closed", "--json").stdout)
    assert (created["max_slots"], created["share"], created["max_priority"]) == (2, 2.5, 60)
    assert (created["is_open"], created["idle"]) == (False, {"below": 2.5, "for_s": 600, "action": "stop"})
    changed = hora(stack.home, "project", "set", "vision", "--max-queued", "3", "--max-priority", "none").stdout
    assert "GPU-hours" in changed
    assert "only admins go above" not in changed
    hora(stack.home, "project", "set", "vision", "--idle", "action=pause")
    assert client.project("vision")["idle"] == {"below": 2.5, "for_s": 600, "action": "pause"}
    hora(stack.home, "project", "set", "vision", "--idle", "none")
    assert client.project("vision")["idle"] is None
    assert hora(stack.home, "project", "add", "vision", "admin").stdout == "admin is a member of vision\n"
    assert client.project("vision")["members"] == ["admin"]
    unknown = hora(stack.home, "project", "add", "vision", "ada")
    hint = "A user exists as soon as they have a token: `hora token create NAME --user ada`."
    assert (unknown.returncode, unknown.stderr) == (102, f"There is no user ada. {hint}\n")
    assert hora(stack.home, "project", "remove", "vision", "admin").stdout == "admin is no longer a member of vision\n"
    listed = hora(stack.home, "project", "ls").stdout
    for text in ("0 of 2", "members only", "share 2.5"):
        assert text in " ".join(listed.split())
    for option, wrong, field in (
        ("--max-slots", "-1", "max_slots"), ("--share", "0", "share"), ("--max-priority", "101", "max_priority"),
        ("--idle", "action=kill", "idle.action"), ("--idle", "x=1", "idle.x"),
    ):  # fmt: skip
        refused = hora(stack.home, "project", "set", "vision", option, wrong)
        assert (refused.returncode, f"{field}: " in refused.stderr) == (2, True), option
    assert hora(stack.home, "project", "show", "nobody").returncode == 102
    assert hora(stack.home, "project", "archive", "vision").stdout == "vision is archived\n"
    refused = hora(stack.home, "submit", "--dataset", "digits", "--project", "vision")
    assert (refused.returncode, "this project is archived" in refused.stderr) == (2, True)
    assert hora(stack.home, "project", "archive", "vision", "--undo").returncode == 0


def test_a_job_waits_for_its_quota_until_the_quota_is_lifted(stack: Stack, client: Service) -> None:
    client.create_project({"name": "thrifty", "max_gpu_hours": 0})
    job_id = hora(stack.home, "submit", *LONG, "--project", "thrifty").stdout.strip()
    other = client.submit({"dataset": "digits", "gpus": 1, "epochs": 100_000, "early_stopping": None})["id"]
    until(lambda: client.job(other)["status"] != "queued", what="a job behind it that has no quota")
    waiting = client.job(job_id)["waiting"]
    assert waiting["reason"].startswith("its project thrifty used 0 of 0 GPU-hours this month; it continues at ")
    assert job_id in hora(stack.home, "ls", "--project", "thrifty").stdout
    hora(stack.home, "project", "set", "thrifty", "--max-gpu-hours", "none")
    until(lambda: client.job(job_id)["status"] != "queued", what="the job, once its quota is lifted")
    for one in (job_id, other):
        client.cancel(one)
    until(lambda: client.job(job_id)["status"] == "cancelled", what="its end")
    assert client.project("thrifty")["usage"]["gpu_hours"] > 0
