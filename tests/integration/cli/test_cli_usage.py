"""`hora usage` and the client against a real stack."""

import csv
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta

import pytest

from hora import Client
from hora.service import Service
from hora.stack.control import Stack
from jobs.db.engine import engine_for, sessions_for
from tests.commands import hora
from tests.integration.api.starting_rows import an_attempt


@pytest.fixture(scope="module", autouse=True)
def used(stack: Stack, client: Service) -> Iterator[None]:
    """A job of the project `past` held two slots for three hours, over the end of October 2024."""
    client.create_project({"name": "past"})
    job_id = client.submit({"dataset": "digits", "project": "past"})["id"]
    client.cancel(job_id)
    client.wait(job_id)
    engine = engine_for(stack.database_url)
    since = datetime(2024, 10, 31, 22, tzinfo=UTC)
    shares = [{"host": "old", "slots": [0, 1], "devices": ["cpu", "cpu"]}]
    times = {"created_at": since, "ended_at": since + timedelta(hours=3)}
    an_attempt(sessions_for(engine), job_id, 99, host="old", shares=shares, **times)
    engine.dispose()
    yield
    client.delete(job_id)


RANGE = ("--from", "2024-10-01", "--until", "2024-11-30")


def test_a_table_and_the_apis_answer(stack: Stack) -> None:
    shown = hora(stack.home, "usage", *RANGE, "--project", "past")
    assert [line.split() for line in shown.stdout.splitlines()] == [
        ["PERIOD", "PROJECT", "GPU-HOURS", "JOBS"],
        ["2024-10", "past", "4", "1"],
        ["2024-11", "past", "2", "1"],
        ["total", "6", "1"],
    ]
    options = ("--by", "user", "--by", "host", "--period", "day", "--user", "admin")
    rows = json.loads(hora(stack.home, "usage", *RANGE, *options, "--json").stdout)["items"]
    assert [(row["period"], row["user"], row["host"], row["gpu_hours"]) for row in rows] == [
        ("2024-10-31", "admin", "old", 4), ("2024-11-01", "admin", "old", 2),
    ]  # fmt: skip
    table = list(csv.reader(hora(stack.home, "usage", *RANGE, *options, "--csv").stdout.splitlines()))
    assert table == [
        ["period", "user", "host", "gpu_hours", "jobs", "cost"],
        ["2024-10-31", "admin", "old", "4.0", "1", ""],
        ["2024-11-01", "admin", "old", "2.0", "1", ""],
    ]


def test_without_usage_it_says_so(stack: Stack) -> None:
    shown = hora(stack.home, "usage", "--from", "2020-01-01", "--until", "2020-02-29")
    assert (shown.returncode, shown.stdout) == (0, "")
    assert shown.stderr == "Nobody used slots from 2020-01-01 to 2020-02-29.\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--by", "projct"], "did you mean 'project'?"),
        (["--by", "user", "--by", "host", "--by", "project"], "must have at most 2 items, not 3"),
        (["--period", "week"], "is not one of 'day', 'month'"),
        (["--project", "passt"], "did you mean past?"),
        (["--user", "nobody"], "there is no such user"),
        (["--from", "October"], "from: must be a date, such as"),
        (["--from", "2024-12-01", "--until", "2024-11-01"], "from: must not be after until"),
        (["--csv", "--json"], "use one of --csv and --json"),
    ],
)
def test_wrong_options_are_named(stack: Stack, options: list[str], words: str) -> None:
    refused = hora(stack.home, "usage", *options)
    assert (refused.returncode, refused.stdout) == (2, "")
    assert words in " ".join(refused.stderr.replace("│", " ").split())


def test_the_client_has_usage_as_a_model(stack: Stack) -> None:
    with Client(stack.url, stack.token) as typed:
        days = {"from_": date(2024, 10, 1), "until": "2024-11-30"}
        report = typed.projects.usage(by=["project", "device"], project="past", **days)
        assert [(row.period, row.project, row.device, row.gpu_hours) for row in report.items] == [
            (date(2024, 10, 1), "past", "cpu", 4), (date(2024, 11, 1), "past", "cpu", 2),
        ]  # fmt: skip
        assert (report.total.gpu_hours, report.total.jobs, report.first_day) == (6, 1, date(2024, 10, 1))
        assert typed.projects.usage_csv(**days).startswith("period,project,gpu_hours,jobs,cost\r\n2024-10-01,past,")
