"""The options of `hora ls`."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from hora.cli.completion import statuses, study_ids
from hora.cli.times import WHEN

Status = Annotated[str | None, typer.Option(help="Only jobs with this status.", autocompletion=statuses)]
Name = Annotated[str | None, typer.Option(help="Only jobs with this name.")]
Label = Annotated[str | None, typer.Option(metavar="K:V", help="Only jobs with this label.")]
Owner = Annotated[str | None, typer.Option(metavar="USER", help="Only jobs of this user.")]
Mine = Annotated[bool, typer.Option("--mine", help="Only your own jobs.")]
Project = Annotated[str | None, typer.Option(metavar="NAME", help="Only jobs of this project.")]
OfStudy = Annotated[str | None, typer.Option(metavar="ID", help="Only jobs of this study.", autocompletion=study_ids)]
Starred = Annotated[bool, typer.Option("--starred", help="Only jobs with a star.")]
Archived = Annotated[bool, typer.Option("--archived", help="Only archived jobs. The list leaves them out otherwise.")]
All = Annotated[bool, typer.Option("--all", help="Archived jobs too.")]
Search = Annotated[
    str | None,
    typer.Option(
        metavar="TEXT", help="Only jobs with this text in their name, id, owner, dataset, model, labels or notes."
    ),
]
Wheres = Annotated[
    list[str],
    typer.Option(
        "--where",
        metavar="CONDITION",
        help="Only jobs for which this holds, such as 'spec.batch_size>=64' or 'label.team=vision or starred'; "
        "repeatable.",
    ),
]
Since = Annotated[str | None, typer.Option(metavar="WHEN", help=f"Only jobs submitted since then: {WHEN}.")]
Until = Annotated[
    str | None, typer.Option(metavar="WHEN", help="Only jobs submitted before then, written like --since.")
]
Sort = Annotated[
    str | None,
    typer.Option(
        metavar="[-]FIELD,...",
        help="Sort by a field, such as priority or metrics.val_iou, or by several: -starred,-metrics.val_iou. - puts "
        "the greatest first.",
    ),
]
Groups = Annotated[
    list[str],
    typer.Option(
        "--group",
        metavar="FIELD",
        help="Show groups of jobs with equal values of this field; repeatable, up to three.",
    ),
]
Metrics = Annotated[
    list[str],
    typer.Option(
        "--metric", metavar="NAME", help="Show the best value of this metric, of groups their mean; repeatable."
    ),
]
Columns = Annotated[
    list[str],
    typer.Option(
        "--column",
        metavar="NAME",
        help="Show this column, such as owner, spec.optimizer.name, label.team, metrics.val_iou or last.loss; "
        "repeatable.",
    ),
]
View = Annotated[
    str | None,
    typer.Option(metavar="NAME", help="Filters, order and columns of this saved view; options add to it."),
]
Limit = Annotated[
    int | None, typer.Option("-n", "--limit", min=1, help="The largest number of rows: 50, with --csv all.")
]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, with exact values.")]
Watch = Annotated[bool, typer.Option("--watch", help="Update the list every two seconds.")]


def check(given: Mapping[str, Any]) -> None:
    """Refuse options that exclude each other, by the names of the parameters of `hora ls`."""
    if given["mine"] and given["owner"]:
        raise typer.BadParameter("--mine and --owner exclude each other")
    if given["archived"] and given["everything"]:
        raise typer.BadParameter("--archived and --all exclude each other")
    if given["as_csv"] and (given["as_json"] or given["watch"]):
        raise typer.BadParameter("--csv excludes --json and --watch")
    if given["group"] and any(given[name] for name in ("watch", "sort", "column")):
        raise typer.BadParameter("--group excludes --watch, --sort and --column")
