"""A study's report: a table, and below it the basis of its figures. From the API's JSON. Pure; called by the CLI."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass

from rich.table import Table
from rich.text import Text

from hora.errors import Json
from hora.render.metrics import ACCURACY, metric
from hora.render.studies import note_line, value, values_line
from hora.render.tables import table_of
from hora.render.text import amount, count, duration, heading, number, percent, plain
from jobs.model.gpu_time import gpu_time, slots_text

_BEST = {
    "wall_s": "fastest",
    "samples_per_s": "highest throughput",
    "val_accuracy": "most accurate",
    "gpu_hours": "fewest GPU-hours",
    "cost": "cheapest",
    "time_to_target_s": "first at the target",
    "gpu_hours_to_target": "fewest GPU-hours to the target",
}
_MOST_MARKED = 6  # cells with a stalled repeat that are listed
# If the page is too narrow for all columns, these are left out one by one, from the first to the last.
EXPENDABLE = (
    "EPOCHS", "SET-UP", "LOSS CURVES", "ALLREDUCE", "VS BASELINE", "REPEATS", "EPOCH TIME", "SLOT TIME", "GPU TIME",
    "TO TARGET", "BY SAMPLES/S", "SAMPLES/S",
)  # fmt: skip


@dataclass(frozen=True)
class _Column:
    """A figure of each cell: the column's head, the key of its best cell in the report's `best`, and a cell's text."""

    head: str
    best: str | None
    text: Callable[[Json], str]


def report_table(report: Json, without: Collection[str] = ()) -> Table:
    """One line a cell. A column without any figure is left out. The best figures are bold."""
    cells, varied = report["cells"], report["varied"]
    columns = [
        column
        for column in _columns(report)
        if column.head not in without and any(column.text(cell) != "-" for cell in cells)
    ]
    table = table_of(*(heading(field, figures=True) for field in varied), *(f"{column.head}>" for column in columns))
    for position, cell in enumerate(cells):
        table.add_row(
            *(value(cell["values"].get(field)) for field in varied),
            *(
                Text(column.text(cell), style="bold" if report["best"].get(column.best) == position else "")
                for column in columns
            ),
        )
    return table


def _columns(report: Json) -> list[_Column]:
    hosts = [_Column("HOSTS", None, _hosts)] if _crosses_hosts(report["cells"]) else []
    target = [_Column("TO TARGET", "time_to_target_s", _to_target)] if report["target"] else []
    goal = (report.get("goal") or {}).get("metric", ACCURACY)
    of_goal = [] if goal == ACCURACY else [_Column(heading(goal), "goal", lambda cell: _metric(cell, goal))]
    return [
        *hosts,
        _Column("REPEATS", None, lambda cell: _repeats(cell, report["repeats"])),
        _Column("TIME", "wall_s", _time),
        _Column("EPOCH TIME", None, lambda cell: _mean(cell.get("epoch_s"), duration)),
        _Column("SET-UP", None, lambda cell: _mean(cell["setup_s"], duration)),
        _Column("SAMPLES/S", "samples_per_s", lambda cell: _interval(cell["samples_per_s"], count, count)),
        *of_goal,
        _Column("VAL ACCURACY", "val_accuracy", lambda cell: _interval(cell["val_accuracy"], number, number)),
        _Column("VS BASELINE", None, lambda cell: _difference(cell, of_accuracy=goal == ACCURACY)),
        _Column("LOSS CURVES", None, _curves),
        _Column("EPOCHS", None, lambda cell: _mean(cell["epochs_run"], lambda mean: f"{mean:g}"[:4])),
        *target,
        _Column("SPEED-UP", None, lambda cell: number(cell["speedup"], 2)),
        _Column("BY SAMPLES/S", None, lambda cell: number(cell["throughput_speedup"], 2)),
        _Column("EFFICIENCY", None, lambda cell: _share(cell["efficiency"])),
        _Column("ALLREDUCE", None, lambda cell: _mean(cell.get("allreduce_share"), percent)),
        _Column("VS CPU", None, _versus_cpu),
        _Column(
            "SLOT TIME" if report.get("device") == "cpu" else "GPU TIME",
            "gpu_hours",
            lambda cell: _mean(cell["gpu_hours"], gpu_time),
        ),
        _Column("COST", "cost", lambda cell: _mean(cell.get("cost"), amount)),
    ]


def report_lines(report: Json) -> list[str]:
    """What the table is based on: baseline, target, the best cells, findings and notes."""
    return [
        *([] if report["complete"] else ["Not all jobs have ended: these are the results so far."]),
        *_baseline(report),
        *_goal(report.get("goal")),
        *_target(report["target"]),
        *_host_boundary(report["cells"]),
        *_outliers(report),
        *_best_cells(report),
        *(f"- {plain(finding)}" for finding in report["findings"]),
        *(f"Next: {plain(step)}" for step in report.get("next_steps") or []),
        *(f"Note, {note_line(note)}" for note in report.get("notes") or []),
    ]


def _baseline(report: Json) -> list[str]:
    baseline, scaling = report["baseline"], report.get("scaling")
    if baseline is None:
        return []
    kind = f" ({plain(scaling)} scaling)" if scaling else ""
    base = slots_text(baseline["gpus"], report.get("device"))
    speed_up = f"Speed-up is the training time on {base} over that of the cell{kind}; efficiency is its share of the"
    time = "The training time includes validation and checkpoints, not the set-up; samples/s are those of the steps"
    return [f"{speed_up} ideal line. {time} alone. Intervals are 95 %."]


def _target(target: Json | None) -> list[str]:
    if target is None:
        return []
    chosen = {"study": "as the study asks", "request": "as asked", "results": "which most cells reach"}
    why = chosen.get(target["chosen_by"], plain(target["chosen_by"]))
    return [f"To target: training time to {plain(target['metric']).replace('_', ' ')} {target['value']:g}, {why}."]


def _goal(goal: Json | None) -> list[str]:
    if goal is None or goal["metric"] == ACCURACY:
        return []
    return [f"The goal is {plain(goal['metric'])}: {'lower' if goal['mode'] == 'min' else 'higher'} is better."]


def _host_boundary(cells: Iterable[Json]) -> list[str]:
    """A mark at the smallest GPU count whose ranks communicate over the network."""
    across = [cell for cell in cells if (cell["hosts"] or 1) > 1]
    if not across:
        return []
    least = min(cell["gpus"] for cell in across)
    return [f"| Host boundary: from {least} GPUs on, cells are spread over several hosts; gradients go between them."]


def _outliers(report: Json) -> list[str]:
    """What the mark of cells with outliers means, and their times with and without them."""
    marked = [cell for cell in report["cells"] if cell.get("with_outliers")]
    if not marked:
        return []
    lines = [
        f"{values_line(cell['values']) or 'the cell'}: {_time(cell['with_outliers'])} with, "
        f"{_time(cell['without_outliers'])} without"
        for cell in marked
    ]
    if len(lines) > _MOST_MARKED:
        lines[_MOST_MARKED:] = [f"and {len(lines) - _MOST_MARKED} more cells"]
    shown = "without" if report.get("outliers_set_aside", True) else "with"
    return [f"* A repeat stalled. The figures of speed are those {shown} it. Time {'; '.join(lines)}."]


def _best_cells(report: Json) -> list[str]:
    cells: list[Json] = report["cells"]
    goal = (report.get("goal") or {}).get("metric", ACCURACY)
    words = {**_BEST, "goal": f"best {plain(goal)}"}
    if report.get("device") == "cpu":
        words = {figure: text.replace("GPU-hours", "slot-hours") for figure, text in words.items()}
    names: dict[int, list[str]] = {}
    for figure, position in report["best"].items():
        if figure != "goal" or goal != ACCURACY:  # that is "most accurate"
            names.setdefault(position, []).append(words.get(figure, plain(figure)))
    if len(cells) < 2 or not names or report.get("trials") is not None:  # a finding names the best trial
        return []
    best = [f"{', '.join(what)}: {values_line(cells[position]['values'])}" for position, what in names.items()]
    return [f"Best: {'; '.join(best)}."]


def _crosses_hosts(cells: Iterable[Json]) -> bool:
    return any((cell["hosts"] or 1) > 1 for cell in cells)


def _hosts(cell: Json) -> str:
    hosts = cell["hosts"]
    return "-" if hosts is None else f"| {hosts}" if hosts > 1 else str(hosts)


def _repeats(cell: Json, asked: int) -> str:
    """2, or 1 of 3 where the others failed, were cancelled or go on, with the most frequent reason."""
    mark = "*" if cell.get("with_outliers") else ""  # a repeat stalled: the findings name it
    if cell["repeats"] == asked:
        return f"{asked}{mark}"
    reason = "".join(f" {plain(failure['end_reason'])}" for failure in (cell.get("failures") or [])[:1])
    return f"{cell['repeats']}{mark} of {asked}{reason}"


def _interval(interval: Json | None, text: Callable[[float], str], half: Callable[[float], str]) -> str:
    """12.3 s ± 0.4: the interval is symmetric."""
    if interval is None:
        return "-"
    if interval["low"] is None or interval["high"] is None:
        return text(interval["mean"])
    return f"{text(interval['mean'])} ± {half((interval['high'] - interval['low']) / 2)}"


def _time(cell: Json) -> str:
    return _interval(cell["wall_s"], duration, _seconds)


def _seconds(half_s: float) -> str:
    return f"{half_s:.1f}" if half_s < 60 else duration(half_s)


def _mean(interval: Json | None, text: Callable[[float], str]) -> str:
    return "-" if interval is None else text(interval["mean"])


def _versus_cpu(cell: Json) -> str:
    """75x: how fast it is against the same cell on CPUs."""
    speedup = cell.get("speedup_vs_cpu")
    return "-" if speedup is None else f"{number(speedup, 2)}x"


def _share(share: float | None) -> str:
    return "-" if share is None else percent(share)


def _difference(cell: Json, *, of_accuracy: bool) -> str:
    """How far the goal is from the baseline's: -0.0120, with a mark where that is more than chance."""
    agreement = cell["accuracy_agreement"]
    if agreement is None:
        return "-"
    mark = {True: "", False: " differs", None: " ?"}[agreement["agrees"]]
    away = agreement["difference"]
    if not of_accuracy:
        return f"{away:+.4g}{mark}"
    return f"{round(away, 4) + 0.0:+.4f}{mark}"  # + 0.0: no -0.0000


def _curves(cell: Json) -> str:
    """How far the loss curves are from the baseline's: loss 0.4 %, val_loss 12 % differs."""
    agreements = (cell.get("loss_agreement") or {}).items()
    return ", ".join(f"{plain(name)} {_curve(agreement)}" for name, agreement in agreements) or "-"


def _curve(agreement: Json) -> str:
    away, share = agreement["difference"], agreement["relative"]
    if away is None:
        return "diverged"
    mark = {True: "", False: " differs", None: " ?"}[agreement["agrees"]]
    return (amount(away) if share is None else f"{_two_digits(100 * share)} %") + mark


def _two_digits(percents: float) -> str:
    return f"{percents:.0f}" if percents >= 10 else f"{percents:.2g}"


def _metric(cell: Json, name: str) -> str:
    return _interval((cell.get("metrics") or {}).get(name), metric, metric)


def _to_target(cell: Json) -> str:
    """The mean time to the target. If not every repeat reached it: how many did."""
    if cell["time_to_target_s"] is not None:
        return duration(cell["time_to_target_s"]["mean"])
    return f"{cell['reached_target']} of {cell['repeats']}" if cell["repeats"] else "-"
