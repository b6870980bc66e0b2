"""Groups of jobs as a table and as CSV."""

import io
from datetime import datetime

import pytest
from rich.console import Console

from hora.render.job_groups import groups_csv, groups_table

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
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(groups_table([{**GROUP, "values": [text]} for text in (notes, "short")], ["notes"], NOW))
    _, first, second = console.file.getvalue().splitlines()  # type: ignore[attr-defined]
    assert first.startswith(shown)
    assert second.startswith("short ")


def test_the_figures_of_each_metric_are_columns() -> None:
    iou = {"name": "val_iou", "n": 2, "mean": 0.5, "min": 0.25, "max": None}
    group = GROUP | {"metric": iou, "metrics": [iou, {"name": "mae", "n": 2, "mean": 0.3, "min": 0.25, "max": 0.75}]}
    table = groups_table([group], ["a", "b", "c", "d"], NOW)
    assert [(column.header, next(iter(column.cells))) for column in table.columns][-6:] == [
        ("VAL IOU MEAN", "0.5000"), ("MIN", "0.2500"), ("MAX", "-"), ("MAE MEAN", "0.3000"), ("MIN", "0.2500"),
        ("MAX", "0.7500"),
    ]  # fmt: skip


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
