"""The lines of a job as the API reads them back: on from a line, back from one, and searched."""

from collections.abc import Callable

import pytest
from fastapi.testclient import TestClient

from jobs.db import text_search
from jobs.db.engine import Sessions
from jobs.model.log_levels import LogLevel
from tests.integration.api.starting_rows import log_lines, seconds

Submit = Callable[..., str]


def test_logs_continue_after_the_last_line_read(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_job_id = submit_job(), submit_job()
    lines = [(n % 3 - 1, f"line {n}") for n in range(9)]  # of the launcher, rank 0 and rank 1
    log_lines(sessions, job_id, lines[:6])
    log_lines(sessions, other_job_id, [(0, "not this")])

    def read_page(**parameters: int) -> tuple[list[str], int]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params=parameters).json()
        return [line["text"] for line in answer["items"]], answer["next_after"]

    first, after = read_page(limit=4)
    second, after = read_page(after=after)
    assert first + second == [text for _, text in lines[:6]]
    assert read_page(after=after) == ([], after)
    log_lines(sessions, job_id, lines[6:])
    third, newest = read_page(after=after)
    assert third == [text for _, text in lines[6:]]
    assert read_page(tail=2) == (["line 7", "line 8"], newest)
    assert read_page(rank=-1)[0] == ["line 0", "line 3", "line 6"]
    assert read_page(rank=1, tail=1)[0] == ["line 8"]
    assert read_page(rank=7) == ([], 0)


def test_lines_of_one_attempt_are_read(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    for attempt in (1, 2, 3):
        log_lines(sessions, job_id, [(0, f"{attempt}: a"), (1, f"{attempt}: b")], attempt=attempt)

    def read(**parameters: int) -> list[str]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params=parameters)
        return [line["text"] for line in answer.json()["items"]]

    assert read(attempt=2) == ["2: a", "2: b"]
    assert read(attempt=1, rank=1, tail=5) == ["1: b"]
    assert read(attempt=4) == []


def test_lines_of_several_ranks_and_of_a_range_of_times_are_read(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    for minute in range(4):
        log_lines(sessions, job_id, [(rank, f"{minute} of {rank}") for rank in (-1, 0, 1, 2)], at_s=60 * minute)

    def read(**parameters: object) -> list[str]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params=parameters).json()
        return [line["text"] for line in answer["items"]]

    def at(minute: int) -> str:
        return seconds(60 * minute).isoformat()

    middle = ["1 of -1", "1 of 1", "2 of -1", "2 of 1"]  # a range begins at its first moment and ends before its last
    assert read(rank=[-1, 1], since=at(1), until=at(3)) == middle
    assert read(rank=2, since=at(2)) == ["2 of 2", "3 of 2"]
    newest = api.get(f"/v1/jobs/{job_id}/logs", params={"rank": [-1, 1], "until": at(3), "tail": 2}).json()
    assert [line["text"] for line in newest["items"]] == middle[2:]
    assert read(rank=[-1, 1], since=at(1), until=at(3), before=newest["previous_before"]) == middle[:2]
    assert read(rank=[-1, 1], since=at(1), after=newest["next_after"]) == ["3 of -1", "3 of 1"]
    for wrong in ({"since": "10m"}, {"rank": [0, -2]}, {"rank": "all"}):
        refused = api.get(f"/v1/jobs/{job_id}/logs", params=wrong)
        assert refused.status_code == 422
        assert refused.json()["errors"][0]["field"].startswith(next(iter(wrong)))


def test_logs_of_a_level_have_the_more_serious_lines_too(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    for level in (*LogLevel, *LogLevel):
        log_lines(sessions, job_id, [(0, f"one {level}"), (1, f"another {level}")], level=level)

    def read(**parameters: object) -> list[tuple[str, str]]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params=parameters).json()
        return [(line["level"], line["text"]) for line in answer["items"]]

    whole = read()
    assert len(whole) == 16
    assert all(text.endswith(level) for level, text in whole)
    serious = [(level, text) for level, text in whole if level in ("warning", "error")]
    assert read(level="warning") == serious
    assert read(level="warning", rank=1, search="ERROR") == [("error", "another error")] * 2
    assert read(level="error", tail=1) == [("error", "another error")]
    assert read(level="debug") == whole
    refused = api.get(f"/v1/jobs/{job_id}/logs", params={"level": "warn"})
    assert refused.status_code == 422
    assert refused.json()["errors"][0]["field"] == "level"


def test_logs_are_read_backwards_from_their_end(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_job_id = submit_job(), submit_job()
    log_lines(sessions, other_job_id, [(0, "before it")])
    log_lines(sessions, job_id, [(n % 2, f"line {n}") for n in range(7)])
    log_lines(sessions, other_job_id, [(0, "behind it")])

    def read_page(**parameters: object) -> tuple[list[str], int, int | None]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params=parameters).json()
        return [line["text"] for line in answer["items"]], answer["next_after"], answer["previous_before"]

    newest, after, before = read_page(tail=3)
    assert newest == ["line 4", "line 5", "line 6"]
    middle, next_after, further = read_page(before=before, limit=3)
    assert middle == ["line 1", "line 2", "line 3"]
    assert read_page(after=next_after) == (newest, after, None)
    first, _, nothing = read_page(before=further, limit=3)
    assert (first, nothing) == (["line 0"], None)
    assert read_page(before=further, limit=1)[2] is None  # exactly one line was left
    assert read_page(tail=7)[2] is None
    assert read_page(tail=2, rank=0)[0] == ["line 4", "line 6"]
    assert read_page(before=before, rank=1, limit=1) == (["line 3"], next_after, next_after)
    texts, back, none = read_page(before=1)
    assert (texts, back, none) == ([], 0, None)


def test_logs_are_searched(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id = submit_job()
    lines = ["loss 0.5", "LOSS_0.4", "Verlust ÄHNLICH", "100 %", "a\\b", "LossX"]
    log_lines(sessions, job_id, [(n % 2, text) for n, text in enumerate(lines)])

    def matches(search: str, **parameters: object) -> list[str]:
        answer = api.get(f"/v1/jobs/{job_id}/logs", params={"search": search, **parameters})
        assert answer.status_code == 200, answer.text
        return [line["text"] for line in answer.json()["items"]]

    assert matches("loss") == ["loss 0.5", "LOSS_0.4", "LossX"]
    assert matches("Loss", tail=2) == ["LOSS_0.4", "LossX"]
    assert matches("loss", rank=0) == ["loss 0.5"]
    assert matches("LOSS", limit=1) == ["loss 0.5"]
    assert matches("ähnlich") == ["Verlust ÄHNLICH"]
    assert (matches("%"), matches("_"), matches("\\")) == (["100 %"], ["LOSS_0.4"], ["a\\b"])  # each stands for itself
    assert matches("s_0") == ["LOSS_0.4"]
    assert matches("nothing") == []


def test_a_search_over_too_many_lines_is_refused(
    api: TestClient, submit_job: Submit, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit_job()
    log_lines(sessions, job_id, [(0, f"line {n}" * 500) for n in range(2000)])
    monkeypatch.setattr(text_search, "SEARCH_LIMIT_S", 0.001)
    problem = api.get(f"/v1/jobs/{job_id}/logs?search=nothing")

    assert problem.status_code == 422
    assert problem.json()["errors"][0]["field"] == "search"
    assert api.get(f"/v1/jobs/{job_id}/logs").status_code == 200


def test_logs_are_read_in_one_direction_per_request(api: TestClient, submit_job: Submit) -> None:
    job_id = submit_job()
    for query, field in (("before=5&after=2", "before"), ("before=5&tail=2", "tail")):
        problem = api.get(f"/v1/jobs/{job_id}/logs?{query}")
        assert problem.status_code == 422
        assert [error["field"] for error in problem.json()["errors"]] == [field]
    for query in ("before=5&after=0", "tail=3&after=2", "tail=3&limit=1"):
        assert api.get(f"/v1/jobs/{job_id}/logs?{query}").status_code == 200
