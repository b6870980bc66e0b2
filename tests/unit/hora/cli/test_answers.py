"""What commands say about the answers of a service, which is simulated here."""

from collections.abc import Callable
from typing import Any

import httpx2 as httpx
import pytest

from hora.cli.app import main
from hora.cli.exit_codes import NOT_FOUND, SUCCEEDED
from hora.service import Service
from tests.unit.hora.played import Answer, job, json_answer

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
        asked = request.url.params.get_list("name") or names
        found = [{"name": name, "rank": -1, "x": [1], "y": [0.5]} for name in names if name in asked]
        return json_answer({"series": found})

    return answer


@pytest.mark.parametrize("options", [[], ["--csv"]])
def test_a_metric_that_a_job_has_not_is_answered_with_those_that_it_has(
    options: list[str], connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(metrics_of("val_mae", "loss"))
    assert main(["metrics", "0job", "--name", "nosuch", *options]) == NOT_FOUND
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Job 0job has no metric nosuch. It has: loss, val_mae.\n")


def test_a_job_without_metrics_may_still_get_some(connect: Connect, capsys: pytest.CaptureFixture[str]) -> None:
    connect(metrics_of())
    assert main(["metrics", "0job", "--name", "loss"]) == SUCCEEDED
    assert capsys.readouterr().err == "There are no values yet.\n"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"status": "running"}, "saves, then it is paused"),
        ({"status": "running", "code": "0a" * 32}, "is paused when it next calls run.should_stop()"),
        ({"status": "queued", "code": "0a" * 32}, "paused"),
    ],
)
def test_a_script_is_paused_when_it_asks(
    changes: dict[str, Any], words: str, connect: Connect, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(lambda _: json_answer(job(**changes)))
    assert main(["pause", "0job"]) == SUCCEEDED
    assert capsys.readouterr().out == f"0job {words}\n"
