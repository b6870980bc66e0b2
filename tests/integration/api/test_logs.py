"""The lines of a job as the API reads them back: on from a line, back from one, and searched."""

from collections.abc import Callable
from typing import Any

import pytest
from fastapi.testclient import TestClient

from jobs.db import text_search
from jobs.db.engine import Sessions
from jobs.model.log_levels import LogLevel
from tests.integration.api.answers import errors_of, got
from tests.integration.api.starting_rows import log_lines, seconds

Submit = Callable[..., str]


def read(api: TestClient, job_id: str, **parameters: object) -> dict[str, Any]:
    return got(api, f"/v1/jobs/{job_id}/logs", **parameters)


def texts(api: TestClient, job_id: str, **parameters: object) -> list[str]:
    return [line["text"] for line in read(api, job_id, **parameters)["items"]]


def test_logs_continue_after_the_last_line_read(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_job_id = submit_job(), submit_job()
    lines = [(n % 3 - 1, f"line {n}") for n in range(9)]  # of the launcher, rank 0 and rank 1
    log_lines(sessions, job_id, lines[:6])
    log_lines(sessions, other_job_id, [(0, "not this")])

    def read_page(**parameters: int) -> tuple[list[str], int]:
        page = read(api, job_id, **parameters)
        return [line["text"] for line in page["items"]], page["next_after"]

    first, after = read_page(limit=4)
    second, after = read_page(after=after)
    assert first + second == [text for _, text in lines[:6]]
    assert read_page(after=after) == ([], after)
    log_lines(sessions, job_id, lines[6:])
    third, newest = read_page(after=after)
    assert third == [text for _, text in lines[6:]]
    assert read_page(tail=2) == (["line 7", "line 8"], newest)
    assert read_page(rank=1, tail=1)[0] == ["line 8"]
    assert read_page(rank=7) == ([], 0)


def test_lines_of_one_attempt_of_several_ranks_and_of_a_range_of_times_are_read(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id, other = submit_job(), submit_job()
    for attempt in (1, 2, 3):
        log_lines(sessions, other, [(0, f"{attempt}: a"), (1, f"{attempt}: b")], attempt=attempt)
    assert texts(api, other, attempt=2) == ["2: a", "2: b"]
    assert texts(api, other, attempt=1, rank=1, tail=5) == ["1: b"]
    assert texts(api, other, attempt=4) == []

    for minute in range(4):
        log_lines(sessions, job_id, [(rank, f"{minute} of {rank}") for rank in (-1, 0, 1, 2)], at_s=60 * minute)
    at = [seconds(60 * minute).isoformat() for minute in range(4)]
    middle = ["1 of -1", "1 of 1", "2 of -1", "2 of 1"]  # a range begins at its first moment and ends before its last
    assert texts(api, job_id, rank=[-1, 1], since=at[1], until=at[3]) == middle
    assert texts(api, job_id, rank=2, since=at[2]) == ["2 of 2", "3 of 2"]
    newest = read(api, job_id, rank=[-1, 1], until=at[3], tail=2)
    assert [line["text"] for line in newest["items"]] == middle[2:]
    before, after = newest["previous_before"], newest["next_after"]
    assert texts(api, job_id, rank=[-1, 1], since=at[1], until=at[3], before=before) == middle[:2]
    assert texts(api, job_id, rank=[-1, 1], since=at[1], after=after) == ["3 of -1", "3 of 1"]
    for query, field in (
        ("since=10m", "since"), ("rank=0&rank=-2", "rank.1"), ("rank=all", "rank.0"), ("level=warn", "level"),
        ("before=5&after=2", "before"), ("before=5&tail=2", "tail"),
    ):  # fmt: skip
        assert errors_of(api.get(f"/v1/jobs/{job_id}/logs?{query}")).keys() == {field}, query
    for query in ("before=5&after=0", "tail=3&after=2", "tail=3&limit=1"):
        assert api.get(f"/v1/jobs/{job_id}/logs?{query}").status_code == 200


def test_logs_of_a_level_have_the_more_serious_lines_too(
    api: TestClient, submit_job: Submit, sessions: Sessions
) -> None:
    job_id = submit_job()
    for level in (*LogLevel, *LogLevel):
        log_lines(sessions, job_id, [(0, f"one {level}"), (1, f"another {level}")], level=level)

    def lines(**parameters: object) -> list[tuple[str, str]]:
        return [(line["level"], line["text"]) for line in read(api, job_id, **parameters)["items"]]

    whole = lines()
    assert len(whole) == 16
    assert all(text.endswith(level) for level, text in whole)
    assert lines(level="warning") == [line for line in whole if line[0] in ("warning", "error")]
    assert lines(level="warning", rank=1, search="ERROR") == [("error", "another error")] * 2
    assert lines(level="error", tail=1) == [("error", "another error")]
    assert lines(level="debug") == whole


def test_logs_are_read_backwards_from_their_end(api: TestClient, submit_job: Submit, sessions: Sessions) -> None:
    job_id, other_job_id = submit_job(), submit_job()
    log_lines(sessions, other_job_id, [(0, "before it")])
    log_lines(sessions, job_id, [(n % 2, f"line {n}") for n in range(7)])
    log_lines(sessions, other_job_id, [(0, "behind it")])

    def read_page(**parameters: object) -> tuple[list[str], int, int | None]:
        page = read(api, job_id, **parameters)
        return [line["text"] for line in page["items"]], page["next_after"], page["previous_before"]

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
    assert read_page(before=1) == ([], 0, None)


def test_logs_are_searched_if_there_are_not_too_many_lines(
    api: TestClient, submit_job: Submit, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    job_id = submit_job()
    lines = ["loss 0.5", "LOSS_0.4", "Verlust ÄHNLICH", "100 %", "a\\b", "LossX"]
    log_lines(sessions, job_id, [(n % 2, text) for n, text in enumerate(lines)])

    def matches(search: str, **parameters: object) -> list[str]:
        return texts(api, job_id, search=search, **parameters)

    assert matches("loss") == ["loss 0.5", "LOSS_0.4", "LossX"]
    assert matches("Loss", tail=2) == ["LOSS_0.4", "LossX"]
    assert matches("loss", rank=0) == ["loss 0.5"]
    assert matches("ähnlich") == ["Verlust ÄHNLICH"]
    assert (matches("%"), matches("_"), matches("\\")) == (["100 %"], ["LOSS_0.4"], ["a\\b"])  # each stands for itself
    assert matches("s_0") == ["LOSS_0.4"]
    log_lines(sessions, job_id, [(0, f"line {n}" * 500) for n in range(2000)])
    monkeypatch.setattr(text_search, "SEARCH_LIMIT_S", 0.001)
    assert errors_of(api.get(f"/v1/jobs/{job_id}/logs?search=nothing")).keys() == {"search"}
    assert api.get(f"/v1/jobs/{job_id}/logs").status_code == 200
