"""A function that the client calls on a rank raises its exception here. docs/client.md calls one for its value."""

from collections.abc import Iterator

import pytest

from hora import Client
from hora.stack.control import Stack


@pytest.fixture(scope="module")
def person(stack: Stack) -> Iterator[Client]:
    with Client(stack.url, stack.token) as client:
        yield client


class TooLarge(ValueError):
    """An exception that the ranks can only have from here."""


def fails(error: Exception) -> None:
    raise error


def test_an_exception_comes_back_with_its_traceback(person: Client) -> None:
    states: list[str] = []
    with pytest.raises(TooLarge, match="batch of 4096") as raised:
        person.jobs.run(
            fails, args=(TooLarge("batch of 4096"),), on_update=lambda job: states.append(job.status), timeout_s=240
        )
    assert states[-1] == "failed"
    assert "in fails\n" in str(raised.value.__cause__)
    assert "TooLarge: batch of 4096" in str(raised.value.__cause__)
