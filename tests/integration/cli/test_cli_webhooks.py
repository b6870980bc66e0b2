"""Webhooks from the command line, on a real stack whose worker tries to send."""

import json

from hora.stack.control import Stack
from tests.commands import hora
from tests.waiting import until


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
    assert hora(stack.home, "webhook", "test", webhook["id"]).returncode == 1
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
    assert hora(stack.home, "webhook", "add", "https://example.com/", "--format", "x").returncode == 2
    refused = hora(stack.home, "webhook", "add", "https://169.254.169.254/")
    assert (refused.returncode, "url: " in refused.stderr, "HORA_WEBHOOK_ALLOW" in refused.stderr) == (2, True, True)
