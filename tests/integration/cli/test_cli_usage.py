"""`hora usage` and the client against a real stack."""

import csv
import json
from collections.abc import Mapping
from typing import Any

from hora import Client
from hora.stack.control import Stack
from tests.commands import hora


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
