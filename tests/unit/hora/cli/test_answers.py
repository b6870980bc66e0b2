"""What commands say about the answers of a service, which is simulated here."""

from collections.abc import Callable
from pathlib import Path

import httpx2 as httpx
import pytest

from hora.cli.app import main
from hora.cli.exit_codes import NOT_FOUND, SUCCEEDED
from hora.service import Service
from tests.unit.hora.played import PLAN, Answer, job, json_answer

Connect = Callable[[Answer], None]


@pytest.fixture
def connect(monkeypatch: pytest.MonkeyPatch) -> Connect:
    """Lets commands talk to a service with these answers."""

    def with_answers(answer: Answer) -> None:
        transport = httpx.MockTransport(answer)
        monkeypatch.setattr("hora.connection.connect", lambda **_: Service("http://hora.test", transport=transport))

    return with_answers


def metrics_of(*names: str) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        requested = request.url.params.get_list("name") or names
        series = [{"name": name, "rank": -1, "x": [1], "y": [0.5]} for name in names if name in requested]
        return json_answer({"series": series})

    return answer


@pytest.mark.parametrize("options", [[], ["--csv"]])
def test_a_metric_that_a_job_has_not_is_answered_with_those_that_it_has(
    options: list[str], connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(metrics_of("val_mae", "loss"))
    assert main(["metrics", "0job", "--name", "nosuch", *options]) == NOT_FOUND
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Job 0job has no metric nosuch. It has: loss, val_mae.\n")
    connect(metrics_of())  # it may still get some
    assert main(["metrics", "0job", "--name", "loss"]) == SUCCEEDED
    assert "--csv" in options or capsys.readouterr().err == "There are no values yet.\n"


def test_a_script_is_paused_when_it_asks(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    for status, code, words in (
        ("running", None, "saves, then it is paused"),
        ("running", "0a" * 32, "is paused when it next calls run.should_stop()"),
        ("queued", "0a" * 32, "paused"),
    ):
        connect(lambda _, status=status, code=code: json_answer(job(status=status, code=code)))  # type: ignore[misc]
        assert main(["pause", "0job"]) == SUCCEEDED
        assert capsys.readouterr().out == f"0job {words}\n"


def test_a_variable_that_one_job_has_is_one_row_of_the_difference(
    connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        job_id = request.url.path.rpartition("/")[2]
        env = {"FOO": "bar"} if job_id == "0a" else {}
        return json_answer(job(id=job_id, spec={"env": env, "params": {}, "code": None}, metrics={}))

    connect(answer)
    assert main(["diff", "0a", "0b"]) == SUCCEEDED
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["spec:"], ["FIELD", "0a", "0b"], ["env.FOO", "bar", "-"]]


@pytest.mark.parametrize(
    ("jobs", "repeats", "sentence"), [(1, 1, "1 job: 1 cell, each once."), (6, 3, "6 jobs: 2 cells, each 3 times.")]
)
def test_the_plan_of_a_study_counts_as_people_do(
    jobs: int, repeats: int, sentence: str, connect: Connect, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    cells = [{"values": {"gpus": 1}, "plan": PLAN, "quote": None, "warnings": []}] * (jobs // repeats)
    connect(lambda _: json_answer({"jobs": jobs, "repeats": repeats, "cells": cells, "varied": ["gpus"]}))
    study = tmp_path / "study.yaml"
    study.write_text("base: {dataset: digits}\ngrid: {gpus: [1]}\n")
    assert main(["study", str(study), "--dry-run"]) == SUCCEEDED
    assert sentence in capsys.readouterr().err
