"""What commands say about the answers of a service, which is simulated here, and about errors."""

import json

import httpx2 as httpx
import pytest

from hora.cli.app import main
from hora.cli.exit_codes import NOT_FOUND, SUCCEEDED
from hora.cli.explain import explain
from hora.cli.job_details import JobDetails, fetch_details
from hora.cli.submitting import submit_continued
from hora.home import StackError
from hora.service import NotAuthorized, NotFound, ProblemError, Service, WaitTimeout
from jobs.model.problems import FieldProblem, InvalidSpec
from tests.unit.hora.played import Answer, connect, job, json_answer, service_of


def metrics_of(*names: str) -> Answer:
    def answer(request: httpx.Request) -> httpx.Response:
        requested = request.url.params.get_list("name") or names
        series = [{"name": name, "rank": -1, "x": [1], "y": [0.5]} for name in names if name in requested]
        return json_answer({"series": series})

    return answer


@pytest.mark.parametrize("options", [[], ["--csv"]])
def test_a_metric_that_a_job_has_not_is_answered_with_those_that_it_has(
    options: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect(monkeypatch, metrics_of("val_mae", "loss"))
    assert main(["metrics", "0job", "--name", "nosuch", *options]) == NOT_FOUND
    printed = capsys.readouterr()
    assert (printed.out, printed.err) == ("", "Job 0job has no metric nosuch. It has: loss, val_mae.\n")
    connect(monkeypatch, metrics_of())  # it may still get some
    assert main(["metrics", "0job", "--name", "loss"]) == SUCCEEDED
    assert "--csv" in options or capsys.readouterr().err == "There are no values yet.\n"


def test_a_script_is_paused_when_it_asks(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    for status, code, words in (
        ("running", None, "saves, then it is paused"),
        ("running", "0a" * 32, "is paused when it next calls run.should_stop()"),
        ("queued", "0a" * 32, "paused"),
    ):
        connect(monkeypatch, lambda _, status=status, code=code: json_answer(job(status=status, code=code)))  # type: ignore[misc]
        assert main(["pause", "0job"]) == SUCCEEDED
        assert capsys.readouterr().out == f"0job {words}\n"


def test_a_variable_that_one_job_has_is_one_row_of_the_difference(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        job_id = request.url.path.rpartition("/")[2]
        env = {"FOO": "bar"} if job_id == "0a" else {}
        return json_answer(job(id=job_id, spec={"env": env, "params": {}, "code": None}, metrics={}))

    connect(monkeypatch, answer)
    assert main(["diff", "0a", "0b"]) == SUCCEEDED
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert rows == [["spec:"], ["FIELD", "0a", "0b"], ["env.FOO", "bar", "-"]]


@pytest.mark.parametrize("named", ["0job@3", "job:0job@3"])
def test_a_checkpoint_may_be_named_as_in_a_spec(monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    service, requests = service_of(json_answer(job(), 201))
    monkeypatch.setattr("hora.connection.connect", lambda: service)
    submit_continued(named, {"epochs": 9}, dry_run=False, wait=False, timeout_s=None, as_json=True)
    assert requests[0].url.path == "/v1/jobs/0job/clone"
    assert json.loads(requests[0].content) == {"epochs": 9, "continue_from": "job:0job@3"}


SECOND = {"number": 2, "shares": [{"host": "ha", "slots": [0]}, {"host": "gone", "slots": [0]}]}
ATTEMPTS = {"items": [{"number": 1}, SECOND], "next_cursor": None}
HOST = {"name": "ha", "slots": []}
ANSWERS = {"": {"id": "x"}, "/attempts": ATTEMPTS, "/analysis": {"findings": []}, "/advice": {"items": [{"number": 1}]}}


def details(*absent: str, status: int = 500) -> JobDetails:
    """The details of a job when the service fails for the paths in `absent`."""

    def answer(request: httpx.Request) -> httpx.Response:
        name = request.url.path.removeprefix("/v1/jobs/x")
        if name.startswith("/v1/hosts/"):
            is_there = name == "/v1/hosts/ha"
            return httpx.Response(200, json=HOST) if is_there else httpx.Response(404, json={"title": "No"})
        if name in absent:
            return httpx.Response(status, json={"title": "No", "detail": "not today"})
        return httpx.Response(200, json=ANSWERS[name])

    with Service("http://hora.test", transport=httpx.MockTransport(answer)) as client:
        return fetch_details(client, "x")


def test_details_hold_the_job_its_newest_attempt_with_its_hosts_its_analysis_and_its_advice() -> None:
    assert details() == JobDetails({"id": "x"}, [{"number": 1}, SECOND], [HOST], {"findings": []}, [{"number": 1}], [])


def test_an_unavailable_part_is_named_and_the_rest_is_shown() -> None:
    found = details("/analysis", "/advice")
    assert (found.job, found.analysis, found.advice) == ({"id": "x"}, None, [])
    assert sorted(found.missing) == [f"The {part} is not available: No: not today" for part in ("advice", "analysis")]
    with pytest.raises(NotFound):
        details("", "/attempts", "/analysis", "/advice", status=404)


@pytest.mark.parametrize(
    ("error", "code", "first"),
    [
        (InvalidSpec([FieldProblem("gpus", "too few")]), 2, "The spec is not valid:"),
        (NotAuthorized(401, "Not authenticated", "unknown token"), 1, "Not authenticated: unknown token. Check"),
        (ProblemError(409, "Job has ended", "it has already failed"), 1, "Job has ended: it has already failed."),
        (ProblemError(413, "Body too large"), 2, "Body too large."),
        (WaitTimeout({"id": "x", "status": "running"}), 101, "Job x is still running. Come back with `hora show x"),
        (WaitTimeout({"id": "x"}, "study"), 101, "Study x is still running. Come back with `hora studies show x"),
        (StackError("Port 1 is taken."), 1, "Port 1 is taken."),
    ],
)
def test_every_error_has_an_exit_code_and_a_message(error: Exception, code: int, first: str) -> None:
    found, lines = explain(error)
    assert found == code
    assert lines[0].startswith(first)
    _, lines = explain(InvalidSpec([FieldProblem("gpus", "too few"), FieldProblem("", "not an object")]))
    assert lines[1:] == ["  gpus: too few", "  (the whole): not an object"]
    with pytest.raises(KeyError):  # nobody expects it
        explain(KeyError("x"))
