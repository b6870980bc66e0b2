"""Times as people write them on the command line."""

from datetime import datetime

import pytest
import typer

from hora.cli.times import moment

NOW = datetime.fromisoformat("2030-01-08T12:00:00+00:00")


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (None, None), ("2h", "2030-01-08T10:00:00Z"), ("7d", "2030-01-01T12:00:00Z"),
        ("2030-01-31T09:00:00+01:00", "2030-01-31T08:00:00Z"),
    ],
)  # fmt: skip
def test_a_time_is_ago_or_in_rfc_3339(text: str | None, at: str | None) -> None:
    assert moment("--since", text, NOW) == at


@pytest.mark.parametrize("text", ["", "tomorrow", "2030-13-01", "7 d", "-7d", "999999w"])
def test_what_is_no_time_is_said_with_its_option(text: str) -> None:
    with pytest.raises(typer.BadParameter, match="is not a time; write 2h, 7d, 2030-01-31") as refused:
        moment("--until", text, NOW)
    assert refused.value.param_hint == "--until"
