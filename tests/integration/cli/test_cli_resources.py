"""Articles, datasets, hosts, usage and webhooks from the command line, against a real stack."""

import csv
import json
import re
from collections.abc import Mapping
from pathlib import Path
from textwrap import indent
from typing import Any

from hora import Client
from hora.cli.exit_codes import FAILED, NOT_FOUND, USAGE
from hora.service import Service
from hora.stack.control import Stack
from tests.archives import zip_of
from tests.commands import hora
from tests.waiting import until

TEXT = "# Which batch?\n\nProse.\n\n```hora\ntable: name\nfilter: name=nothing-has-this-name\n```\n"


def test_an_article_is_written_changed_exported_and_deleted(stack: Stack, tmp_path: Path) -> None:
    file = tmp_path / "batches.md"
    file.write_text(TEXT)
    added = hora(stack.home, "article", "add", str(file))
    assert added.returncode == 0, added.stderr
    article_id = added.stdout.strip()
    (line,) = json.loads(hora(stack.home, "article", "ls", "--json").stdout)["items"]
    assert (line["id"], line["title"], line["version"]) == (article_id, "Which batch?", 1)
    assert "Which batch?" in hora(stack.home, "article", "ls").stdout
    assert hora(stack.home, "article", "show", article_id).stdout == indent(TEXT, "  ")

    file.write_text(TEXT.replace("Prose.", "More prose."))
    assert "has version 2" in hora(stack.home, "article", "change", article_id, str(file)).stdout
    assert "is as it was" in hora(stack.home, "article", "change", article_id, str(file)).stdout
    assert "More prose." in hora(stack.home, "article", "show", article_id).stdout
    assert hora(stack.home, "article", "show", article_id, "--version", "1").stdout == indent(TEXT, "  ")
    assert "Which batch?" in hora(stack.home, "article", "versions", article_id).stdout

    assert hora(stack.home, "article", "export", article_id, "-o", str(tmp_path / "again.md")).returncode == 0
    assert (tmp_path / "again.md").read_text() == file.read_text()
    exported = tmp_path / "batches.html"
    assert hora(stack.home, "article", "export", article_id, "-o", str(exported)).returncode == 0
    assert "<p>More prose.</p>" in exported.read_text()
    assert hora(stack.home, "article", "export", article_id, "-o", "batches.docx").returncode == 2
    assert hora(stack.home, "article", "rm", article_id).returncode == 0
    empty = hora(stack.home, "article", "ls", "--owner", "nobody")
    assert (empty.returncode, empty.stdout, empty.stderr) == (0, "", "No article matches.\n")
    assert hora(stack.home, "article", "show", article_id).returncode == 102
    assert hora(stack.home, "article", "add", "-", stdin="no heading").returncode == 2
    assert hora(stack.home, "article", "add", str(tmp_path / "missing.md")).returncode == 2


def test_datasets_are_listed_and_a_refused_archive_names_its_reason_and_can_be_removed(
    stack: Stack, client: Service, tmp_path: Path
) -> None:
    shown = hora(stack.home, "dataset", "ls").stdout
    for text in ("digits", "built in", "10 classes", "1 target"):
        assert text in shown
    listed = json.loads(hora(stack.home, "dataset", "ls", "--json").stdout)["items"]
    assert "fashion-mnist" in [one["name"] for one in listed]
    archive = tmp_path / "slip.zip"
    archive.write_bytes(zip_of({"../../slip": b"x"}))
    added = hora(stack.home, "dataset", "add", "slip", str(archive), "--wait")
    assert added.returncode == FAILED
    assert "slip@1 is invalid" in added.stdout
    assert "leads outside the archive" in added.stdout
    assert "slip@1" in hora(stack.home, "dataset", "show", "slip").stdout
    assert hora(stack.home, "dataset", "rm", "slip@1").returncode == 0
    assert hora(stack.home, "dataset", "show", "slip@1").returncode == NOT_FOUND
    for upload in client.uploads():
        client.remove_upload(upload["id"])
    for wrong in ("show slip@x", "rm slip", "add slip x --image-size 9", "add No/Name x"):
        assert hora(stack.home, "dataset", *wrong.split()).returncode == USAGE, wrong
    nowhere = hora(stack.home, "dataset", "add", "slip", "/nowhere", "--upload")
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "/nowhere does not exist on this machine" in nowhere.stderr


def test_hosts_are_listed_and_shown(stack: Stack, client: Service) -> None:
    (host,) = client.hosts()
    assert host["name"] in hora(stack.home, "hosts").stdout
    assert json.loads(hora(stack.home, "hosts", "--json").stdout)["items"][0]["slots"][1]["index"] == 1
    shown = hora(stack.home, "hosts", "show", host["name"]).stdout
    assert f"cores        {host['info']['cores']}\n" in "\n".join(line.rstrip() for line in shown.splitlines()) + "\n"
    assert len(re.findall(r"^ +[01]  CPU share ", shown, re.MULTILINE)) == 2
    assert json.loads(hora(stack.home, "hosts", "show", host["name"], "--json").stdout)["name"] == host["name"]
    assert hora(stack.home, "hosts", "forget", host["name"]).stderr.partition(":")[0] == "Host is in use"


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


def test_the_usage_of_a_day_is_a_table_json_csv_and_a_model(stack: Stack, job: Mapping[str, Any]) -> None:
    day = job["ended_at"][:10]
    options = ("--from", day, "--until", day, "--by", "user", "--by", "host", "--period", "day", "--user", "admin")
    (row,) = json.loads(hora(stack.home, "usage", *options, "--json").stdout)["items"]
    assert (row["period"], row["user"], row["jobs"] >= 1, row["gpu_hours"] > 0) == (day, "admin", True, True)
    head, line, total = hora(stack.home, "usage", *options).stdout.splitlines()
    assert head.split() == ["PERIOD", "USER", "HOST", "GPU-HOURS", "JOBS"]
    assert line.split()[:3] == [day, "admin", row["host"]]
    assert total.startswith("total")
    names, values = csv.reader(hora(stack.home, "usage", *options, "--csv").stdout.splitlines())
    assert names == ["period", "user", "host", "gpu_hours", "jobs", "cost"]
    assert (values[:3], values[5]) == ([day, "admin", row["host"]], "")
    with Client(stack.url, stack.token) as typed:
        report = typed.projects.usage(by=["project", "device"], project="default", from_=day, until=day)
        assert [(row.project, row.device) for row in report.items] == [("default", "cpu")]
        assert report.total.gpu_hours > 0
        assert typed.projects.usage_csv(from_=day, until=day).startswith("period,project,gpu_hours,jobs,cost\r\n")
    none = hora(stack.home, "usage", "--from", "2020-01-01", "--until", "2020-02-29")
    assert (none.returncode, none.stdout) == (0, "")
    assert none.stderr == "Nobody used slots from 2020-01-01 to 2020-02-29.\n"


def test_a_webhook_is_added_tested_disabled_and_removed(stack: Stack) -> None:
    url = "https://hooks.hora.invalid/a"
    added = hora(stack.home, "webhook", "add", url, "--events", "job.ended")
    assert added.returncode == 0, added.stderr
    secret = added.stdout.strip()  # alone, so that it can be piped
    assert secret.startswith("hora_whsec_")
    (webhook,) = json.loads(hora(stack.home, "webhook", "ls", "--json").stdout)["items"]
    assert (webhook["url"], webhook["events"]) == (url, ["job.ended"])
    for shown in (hora(stack.home, "webhook", "ls"), hora(stack.home, "webhook", "show", webhook["id"])):
        assert url in shown.stdout
        assert secret not in shown.stdout

    ping = json.loads(hora(stack.home, "webhook", "test", webhook["id"], "--json").stdout)

    def tried() -> bool:
        items = json.loads(hora(stack.home, "webhook", "deliveries", webhook["id"], "--json").stdout)["items"]
        return any(delivery["error"] and delivery["id"] == ping["id"] for delivery in items)  # others' jobs end too

    until(tried, what="a try of the worker")
    assert "its name cannot be resolved" in hora(stack.home, "webhook", "deliveries", webhook["id"]).stdout
    assert hora(stack.home, "webhook", "redeliver", webhook["id"], str(ping["id"])).returncode == 0

    assert hora(stack.home, "webhook", "disable", webhook["id"]).returncode == 0
    assert hora(stack.home, "webhook", "enable", webhook["id"]).returncode == 0
    assert hora(stack.home, "webhook", "rm", webhook["id"]).returncode == 0
    assert hora(stack.home, "webhook", "show", webhook["id"]).returncode == 102
    assert secret not in stack.log_of("worker")


def test_a_webhook_of_a_chat_says_its_format_and_no_secret(stack: Stack) -> None:
    added = hora(stack.home, "webhook", "add", "https://hooks.slack.com/services/T0/B0/x", "--events", "study.ended")
    assert (added.returncode, added.stdout) == (0, ""), added.stderr
    assert added.stderr.strip().endswith("in the format slack")
    (webhook,) = json.loads(hora(stack.home, "webhook", "ls", "--json").stdout)["items"]
    assert hora(stack.home, "webhook", "rm", webhook["id"]).returncode == 0
