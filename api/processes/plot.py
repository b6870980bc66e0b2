"""Draws one picture: `python -m api.processes.plot` writes a PNG.

It takes a `jobs.insight.studies.plots.Plot` on standard input. A process of its own, started by `drawing`: matplotlib
takes 100 MB that the api can do without.
"""

import sys
import warnings
from typing import Any

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
mpl.rcParams["text.parse_math"] = False  # a $ in a name is a $
mpl.rcParams["svg.fonttype"] = "none"

from matplotlib.figure import Figure  # noqa: E402 - after the choice of the renderer
from matplotlib.font_manager import get_font_names  # noqa: E402
from matplotlib.ticker import FixedLocator, MaxNLocator  # noqa: E402

from jobs.insight.studies.plots import Line, Panel, Plot  # noqa: E402

# Matplotlib's own font has Latin, Greek, Cyrillic and Arabic. These have more scripts, where they are installed.
_MORE_FONTS = ("Noto Sans CJK JP", "Noto Sans CJK SC", "Droid Sans Fallback", "WenQuanYi Zen Hei", "Unifont")
mpl.rcParams["font.family"] = ["DejaVu Sans", *(name for name in _MORE_FONTS if name in get_font_names())]

_MOST_IN_LEGEND = 10
_COLOURS = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"]  # Okabe and Ito: for all eyes
_MARKS = "osD^vP*"
_DASHES = ("-", "--")
_FEW_POINTS = 10  # of a curve: they have marks, so that a single one is visible


def main() -> None:
    """Read the plot, write the picture."""
    plot = Plot.model_validate_json(sys.stdin.buffer.read())
    figure = figure_of(plot)
    # Characters that no font has are drawn as boxes.
    warnings.filterwarnings("ignore", "Glyph .* missing from font", UserWarning)
    figure.savefig(sys.stdout.buffer, format="png", dpi=120)


def figure_of(plot: Plot) -> Figure:
    """The figure of a plot, with two panels side by side in each row."""
    count = max(1, len(plot.panels))
    rows, columns = (count + 1) // 2, min(2, count)
    figure = Figure(figsize=(1 + 5.5 * columns, 0.4 + 4.2 * rows), layout="constrained")
    title = _cut(plot.title, 128)
    figure.suptitle(title if plot.panels else f"{title}: no results yet", wrap=True)
    axes = figure.subplots(rows, columns, squeeze=False).flatten()
    for panel, panel_axes in zip(plot.panels, axes, strict=False):
        _draw(panel, panel_axes)
    for panel_axes in axes[len(plot.panels) :]:
        panel_axes.set_axis_off()
    return figure


def _draw(panel: Panel, axes: Any) -> None:
    for number, line in enumerate(panel.lines):
        label = (_cut(line.label, 40) or None) if number < _MOST_IN_LEGEND else None
        colour, mark = _COLOURS[number % len(_COLOURS)], _MARKS[number % len(_MARKS)]
        if panel.are_curves:
            _draw_curve(line, axes, label, colour, _DASHES[number // len(_COLOURS) % len(_DASHES)])
            continue
        x, style = line.x, "-"
        if panel.ticks is not None:  # nothing lies between two texts; lines side by side stay apart
            apart = min(0.08, 0.8 / len(panel.lines))
            x, style = [at + apart * (number - (len(panel.lines) - 1) / 2) for at in line.x], "none"
        axes.errorbar(
            x, line.y, yerr=_errors(line), label=label, color=colour, marker=mark, markersize=5, capsize=3,
            linewidth=1.5, linestyle=style, elinewidth=1.2,
        )  # fmt: skip
    if panel.ideal is not None:
        axes.plot(panel.ideal.x, panel.ideal.y, label=panel.ideal.label, color="#888888", linestyle=":", zorder=1)
    if panel.boundary is not None:
        axes.axvline(panel.boundary, color="#888888", linestyle="--", linewidth=1, label="more than one host")
    _set_axes(panel, axes)
    if axes.get_legend_handles_labels()[1]:
        axes.legend(fontsize="small", title=_left_out(panel), title_fontsize="small")


def _draw_curve(line: Line, axes: Any, label: str | None, colour: str, dash: str) -> None:
    """A line and its range, with gaps where values are unknown."""
    x, y, low, high = (np.array(values, dtype=float) for values in (line.x, line.y, line.low, line.high))
    axes.plot(
        x, y, label=label, color=colour, linewidth=1.5, linestyle=dash, marker="." if len(x) <= _FEW_POINTS else None
    )
    axes.fill_between(x, low, high, color=colour, alpha=0.15, linewidth=0)


def _errors(line: Line) -> list[list[float]] | None:
    """How far each error bar goes down and up; none where no point has any."""
    if all(low is None for low in line.low):
        return None
    down = [0.0 if low is None or y is None else y - low for y, low in zip(line.y, line.low, strict=True)]
    up = [0.0 if high is None or y is None else high - y for y, high in zip(line.y, line.high, strict=True)]
    return [down, up]


def _set_axes(panel: Panel, axes: Any) -> None:
    axes.set_title(panel.title)
    axes.set_xlabel(panel.x_label)
    axes.set_ylabel(panel.y_label)
    axes.grid(alpha=0.3)
    xs = sorted({x for line in panel.lines for x in line.x})
    if panel.ticks is not None:
        axes.set_xlim(-0.5, len(panel.ticks) - 0.5)
        axes.set_xticks(range(len(panel.ticks)), [_cut(tick, 24) for tick in panel.ticks])
        if sum(map(len, panel.ticks)) > 60:
            axes.tick_params(axis="x", labelrotation=30)
    elif len(xs) <= 8 and not panel.are_curves:
        if len(xs) > 2 and xs[0] > 0 and xs[-1] / xs[0] > 16:
            axes.set_xscale("log", base=2)  # GPU counts are usually 1, 2, 4, 8, ...
            if panel.ideal is not None:
                axes.set_yscale("log", base=2)  # so that the ideal is a straight line
                axes.yaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.xaxis.set_major_locator(FixedLocator(xs))
        axes.xaxis.set_minor_locator(FixedLocator([]))
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    else:
        axes.xaxis.set_major_locator(MaxNLocator(8, integer=panel.are_curves))
    if panel.ideal is not None and axes.get_yscale() == "linear":
        axes.set_ylim(bottom=0)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _left_out(panel: Panel) -> str | None:
    more = len(panel.lines) - _MOST_IN_LEGEND
    return f"and {more} more" if more > 0 else None


if __name__ == "__main__":
    main()
