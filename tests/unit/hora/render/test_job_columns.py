"""The columns of jobs, on cases that also test those of the dashboard, in `dashboard/src/pages/jobs/csv.test.ts`."""

import json
from pathlib import Path
from typing import Any

import pytest

from hora.render.job_columns import columns_table, csv_line, csv_lines
from jobs.views.job_columns import UnknownColumn, columns_of

_PAGES = Path(__file__).parents[4] / "dashboard" / "src" / "pages"
CASES: dict[str, Any] = json.loads((_PAGES / "jobs" / "columns.cases.json").read_text())
JOB: dict[str, Any] = CASES["job"]


@pytest.mark.parametrize("name", CASES["columns"])
def test_each_column_has_the_name_and_the_exact_value_of_the_api(name: str) -> None:
    first, *columns = columns_of([name])
    assert (first[0], first[1](JOB)) == ("id", JOB["id"])
    assert [[title, read(JOB)] for title, read in columns] == CASES["columns"][name]


@pytest.mark.parametrize(("value", "cell"), [case for case in CASES["cells"] if not {*"\r\n"} & {*str(case[0])}])
def test_a_cell_is_quoted_where_it_has_to_be_and_is_no_formula(value: Any, cell: str) -> None:
    assert csv_line(["x", value]) == f"x,{cell}\r\n"  # one empty value alone would be quoted


def test_the_file_is_written_job_by_job_without_what_steers_a_terminal() -> None:
    assert csv_line(["\x1b]0;title\x07", "a\nb\r"]) == "\\x1b]0;title\\x07,a\\x0ab\\x0d\r\n"

    def endless() -> Any:
        while True:
            yield JOB

    lines = csv_lines(endless(), columns_of(["owner", "spec.params.x"]))
    assert [next(lines) for _ in range(3)] == ["id,owner,spec.params.x\r\n", *["3k9v0t2m7x1q,ada,3\r\n"] * 2]


@pytest.mark.parametrize("name", ["colour", "spec.", "params.x", ""])
def test_an_unknown_column_is_refused_with_those_that_there_are(name: str) -> None:
    with pytest.raises(UnknownColumn, match=r"there are status, .*spec\.NAME"):
        columns_of([name])


def test_a_table_has_the_same_columns() -> None:
    table = columns_table([JOB], columns_of(["spec.optimizer.momentum", "label.te", "best"]))
    assert [list(column.cells) for column in table.columns][1:] == [["0.9"], ["-"], ["val_loss"], ["0.25"], ["0.4"]]
