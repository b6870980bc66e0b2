"""Functions that the client calls on ranks under real horovodrun: their values and their exceptions."""

from collections.abc import Iterator
from typing import Any

import pytest

from hora import Client
from hora.stack.control import Stack


@pytest.fixture(scope="module")
def person(stack: Stack) -> Iterator[Client]:
    with Client(stack.url, stack.token) as client:
        yield client


class TooLarge(ValueError):
    """An exception that the ranks can only have from here."""


def squares(first: int, *, last: int) -> dict[str, Any]:
    from hora import run

    run.report(step=1, total=first + last)
    return {
        "rank": run.rank, "size": run.size, "lr": run.params["lr"],
        "squares": [number * number for number in range(first, last)],
    }  # fmt: skip


def fails(error: Exception) -> None:
    raise error


def test_the_value_of_rank_0_comes_back(person: Client) -> None:
    states: list[str] = []
    value = person.jobs.run(
        squares, gpus=2, args=(2,), kwargs={"last": 5}, params={"lr": 0.1}, labels={"call": "squares"},
        on_update=lambda job: states.append(job.status), timeout_s=240,
    )  # fmt: skip
    assert value == {"rank": 0, "size": 2, "lr": 0.1, "squares": [4, 9, 16]}
    assert states[-1] == "succeeded"
    (job,) = person.jobs.list(label="call:squares")
    assert (job.name, job.metric_values["total"].best) == ("squares", 7)


def test_an_exception_comes_back_with_its_traceback(person: Client) -> None:
    with pytest.raises(TooLarge, match="batch of 4096") as raised:
        person.jobs.run(fails, gpus=1, args=(TooLarge("batch of 4096"),), timeout_s=240)
    assert "in fails\n" in str(raised.value.__cause__)
    assert "TooLarge: batch of 4096" in str(raised.value.__cause__)
