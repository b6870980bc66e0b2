"""What the command line shows of searches: their space, and the trials of a report. From the API's JSON. Pure."""

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.jobs import STATUS_STYLE
from hora.render.metrics import metric
from hora.render.studies import value
from hora.render.tables import table_of
from hora.render.text import heading, percent, plain


def space_table(search: Json) -> Table:
    """One line for each field of the space."""
    table = table_of("FIELD", "CHOICES")
    for field, choices in search["space"].items():
        table.add_row(plain(field), value(choices))
    return table


def search_line(planned: Json) -> str:
    """What a search would do: 24 trials by tpe, 4 at once; asha ends bad ones early."""
    search, trials = planned["search"], planned["jobs"]
    prune = search["prune"]
    early = "" if prune is None else f"; {plain(prune['name'])} ends bad ones early"
    return f"{trials} trial{'s' * (trials > 1)} by {plain(search['method'])}, {search['parallel']} at once{early}."


def trials_table(report: Json) -> Table:
    """One line for each trial, by its number. The best one is bold."""
    fields, best = report["varied"], report["best"].get("goal")
    table = table_of(
        "TRIAL>", *(heading(field, figures=True) for field in fields), f"{heading(report['search']['objective'])}>",
        "EPOCHS>", "STATUS", "JOB",
    )  # fmt: skip
    for trial in report["trials"]:
        status = plain(trial["status"]) + (" (pruned)" if trial["pruned_at_epoch"] is not None else "")
        table.add_row(
            str(trial["number"]),
            *(value(trial["values"].get(field)) for field in fields),
            metric(trial["objective"]),
            "-" if trial["epochs"] is None else str(trial["epochs"]),
            Text(status, style=STATUS_STYLE.get(trial["status"], "")),
            plain(trial["job_id"]),
            style="bold" if trial["number"] == best else "",
        )
    return table


def importances_line(report: Json) -> list[str]:
    """How much each field matters: learning_rate 71 %, batch_size 29 %."""
    shares = report["importances"]
    if not shares:
        return []
    return [f"Importances: {', '.join(f'{plain(field)} {percent(share)}' for field, share in shares.items())}."]
