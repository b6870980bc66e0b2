"""The table of `hora doctor`."""

from hora.doctor.findings import Finding, findings_table
from tests.printed import as_text


def test_findings_table_shows_the_advice() -> None:
    text = as_text(findings_table([Finding("disk space", "fail", "0.1 GB free", "Make room.")]))
    assert "disk space  fail  0.1 GB free  Make room." in text
