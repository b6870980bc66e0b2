"""`hora project` against a real stack, whose worker holds jobs to their projects' quotas."""

import json

from hora.service import Service
from hora.stack.control import Stack
from tests.commands import hora
from tests.waiting import until


def test_a_project_is_created_changed_and_archived(stack: Stack, client: Service) -> None:
    created = json.loads(
        hora(stack.home, "project", "create", "vision", "--max-slots", "2", "--closed", "--json").stdout
    )
    assert (created["max_slots"], created["is_open"]) == (2, False)
    assert "GPU-hours" in hora(stack.home, "project", "set", "vision", "--max-queued", "3").stdout
    assert hora(stack.home, "project", "add", "vision", "admin").stdout == "admin is a member of vision\n"
    assert client.project("vision")["members"] == ["admin"]
    unknown = hora(stack.home, "project", "add", "vision", "ada")
    hint = "A user exists as soon as they have a token: `hora token create NAME --user ada`."
    assert (unknown.returncode, unknown.stderr) == (102, f"There is no user ada. {hint}\n")
    assert hora(stack.home, "project", "remove", "vision", "admin").stdout == "admin is no longer a member of vision\n"
    listed = hora(stack.home, "project", "ls").stdout
    assert "0 of 2" in listed
    assert "members only" in listed
    refused = hora(stack.home, "project", "set", "vision", "--max-slots", "-1")
    assert (refused.returncode, "max_slots" in refused.stderr) == (2, True)
    assert hora(stack.home, "project", "show", "nobody").returncode == 102
    assert hora(stack.home, "project", "archive", "vision").stdout == "vision is archived\n"
    refused = hora(stack.home, "submit", "--dataset", "digits", "--project", "vision")
    assert (refused.returncode, "this project is archived" in refused.stderr) == (2, True)
    assert hora(stack.home, "project", "archive", "vision", "--undo").returncode == 0


def test_a_project_says_what_to_do_with_idle_slots(stack: Stack, client: Service) -> None:
    client.create_project({"name": "saving"})
    said = hora(stack.home, "project", "set", "saving", "--idle", "below=2.5,for_s=600,action=stop").stdout
    assert "below 2.5 % for 600 s: stop" in said
    hora(stack.home, "project", "set", "saving", "--idle", "action=pause")
    assert client.project("saving")["idle"] == {"below": 2.5, "for_s": 600, "action": "pause"}
    for wrong, why in (
        ("action=kill", "idle.action"), ("for_s=1", "idle.for_s"), ("below", "is not NAME=VALUE"), ("x=1", "idle.x"),
        ("below=nan", "idle.below"), ("", "is not NAME=VALUE"),
    ):  # fmt: skip
        refused = hora(stack.home, "project", "set", "saving", "--idle", wrong)
        assert refused.returncode == 2, wrong
        assert why in " ".join(refused.stderr.split()), wrong
    hora(stack.home, "project", "set", "saving", "--idle", "none")
    assert client.project("saving")["idle"] is None


def test_a_project_has_a_share(stack: Stack, client: Service) -> None:
    assert "share" in hora(stack.home, "project", "create", "sharing", "--share", "2.5").stdout
    assert client.project("sharing")["share"] == 2.5
    assert "share 2.5" in " ".join(hora(stack.home, "project", "ls").stdout.split())
    for wrong, why in (
        ("0", "greater than 0"), ("-1", "greater than 0"), ("1001", "must be at most 1000"),
        ("much", "'much' is not a number; 1 is the default"), ("nan", "'nan' is not a number"),
        ("none", "'none' is not a number"),
    ):  # fmt: skip
        refused = hora(stack.home, "project", "set", "sharing", "--share", wrong)
        assert refused.returncode == 2, wrong
        assert why in " ".join(refused.stderr.replace("│", "").split()), wrong
    hora(stack.home, "project", "set", "sharing", "--share", "1")
    assert client.project("sharing")["share"] == 1


def test_a_job_waits_for_its_quota_until_the_quota_is_lifted(stack: Stack, client: Service) -> None:
    client.create_project({"name": "thrifty", "max_gpu_hours": 0})
    endless = ("--set", "epochs=100000", "--set", "early_stopping=null")
    job_id = hora(stack.home, "submit", "--dataset", "digits", "--project", "thrifty", *endless).stdout.strip()
    job_without_quota = client.submit({"dataset": "digits", "gpus": 1, "epochs": 100_000, "early_stopping": None})
    until(lambda: client.job(job_without_quota["id"])["status"] != "queued", what="a job behind it that has no quota")
    job = client.job(job_id)
    assert job["status"] == "queued"
    assert job["waiting"]["reason"].startswith("its project thrifty used 0 of 0 GPU-hours this month; it continues at ")
    assert job_id in hora(stack.home, "ls", "--project", "thrifty").stdout
    hora(stack.home, "project", "set", "thrifty", "--max-gpu-hours", "none")
    until(lambda: client.job(job_id)["status"] != "queued", what="the job, once its quota is lifted")
    assert client.project("thrifty")["usage"]["slots"] == 1
    for one in (job_id, job_without_quota["id"]):
        client.cancel(one)
    until(lambda: client.job(job_id)["status"] == "cancelled", what="its end")
    assert client.project("thrifty")["usage"]["gpu_hours"] > 0
