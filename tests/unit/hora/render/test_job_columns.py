"""Columns and groups of jobs. The cases of columns also test those of the dashboard (`pages/jobs/csv.test.ts`)."""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from hora.render.job_columns import columns_table, csv_line, csv_lines
from hora.render.job_groups import groups_csv, groups_table
from jobs.views.job_columns import UnknownColumn, columns_of
from tests.printed import as_text

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


NOW = datetime.fromisoformat("2030-01-01T00:01:00+00:00")
GROUP = {
    "values": ["adam\x07", 64, None, [1, "ä"]], "where": [], "jobs": 3, "statuses": {"queued": 1, "failed": 2},
    "newest_at": "2030-01-01T00:00:00Z", "metric": None,
}  # fmt: skip


def test_a_group_is_a_row_with_its_values_and_counts() -> None:
    table = groups_table([GROUP], ["spec.optimizer.name", "batch", "label.x", "spec.params.a"], NOW)
    assert [column.header for column in table.columns][4:] == ["JOBS", "STATUSES", "NEWEST"]
    assert [next(iter(column.cells)) for column in table.columns] == [
        "adam\\x07", "64", "-", '[1, "ä"]', "3", "1 queued, 2 failed", "1 min 00 s ago",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("width", "shown"),
    [(60, "Diverges after ep…     3"), (120, "Diverges after epoch 9, with every rate that I have tried so far…  ")],
)
def test_of_a_long_text_the_first_line_is_shown_as_far_as_it_fits(width: int, shown: str) -> None:
    notes = "\nDiverges after epoch 9, with every rate that I have tried so far\r\n\nTry `clip_norm`.\n"
    groups = [{**GROUP, "values": [text]} for text in (notes, "short")]
    _, first, second = as_text(groups_table(groups, ["notes"], NOW), width).splitlines()
    assert first.startswith(shown)
    assert second.startswith("short ")


def test_the_csv_of_groups_has_exact_values_and_a_column_for_each_status() -> None:
    metrics = [{"name": "val_loss", "n": 2, "mean": 1 / 3, "min": 0.25, "max": None}]
    group = GROUP | {"metrics": metrics, "values": ["=1+1", 64, None, [1, "ä"]]}
    heading, row = groups_csv([group], ["name", "batch", "label.x", "spec.params.a"], ["val_loss"])
    statuses = "queued,launching,running,succeeded,failed,cancelled"
    figures = "val_loss.n,val_loss.mean,val_loss.min,val_loss.max"
    assert heading == f"name,batch,label.x,spec.params.a,jobs,{statuses},newest_at,{figures}\r\n"
    assert list(groups_csv([], ["name"], [])) == [f"name,jobs,{statuses},newest_at\r\n"]
    values = '\'=1+1,64,,"[1, ""ä""]"'
    assert row == f"{values},3,1,0,0,0,2,0,2030-01-01T00:00:00Z,2,0.3333333333333333,0.25,\r\n"
