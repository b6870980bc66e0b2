"""What the command line shows of what differs between jobs."""

from hora.render.scripts import fields_table
from tests.printed import as_text


def test_differing_figures_have_as_many_digits_as_they_need() -> None:
    much = 0.30000000000000004
    fields = {"mae": [much, 0.1], "loss": [much, 0.3], "gpus": [1234567, 2], "x": [1.5, None]}
    lines = [" ".join(line.split()) for line in as_text(fields_table(fields, ["0a", "0b"])).splitlines()[1:]]
    assert lines == ["mae 0.3 0.1", "loss 0.30000000000000004 0.3", "gpus 1234567 2", "x 1.5 -"]
