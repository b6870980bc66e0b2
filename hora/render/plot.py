"""Metrics as plots in the terminal. Pure; called by the CLI."""

from collections.abc import Sequence
from itertools import groupby

import plotille

from hora.errors import Json
from hora.render.text import plain
from jobs.model.goals import TIMES

OVER_ALL_RANKS = -1
_FIRST = ("loss", "accuracy")  # the order of the plots; others follow by name
_MOST = 20  # plots, unless metrics are named
_COLOURS = ("cyan", "yellow")  # training, validation
_MARKS = (None, "x")


def plots(
    series: Sequence[Json], *, width: int, height: int = 12, colour: bool = False, names: Sequence[str] = ()
) -> list[str]:
    """One plot for each metric over the epochs, with its validation counterpart in the same one.

    A metric that has no value over all ranks is plotted over the steps of rank 0. Without `names` the figures about
    speed and rate are left out.
    """
    known = [one for one in series if any(y is not None for y in one["y"])]
    known = [one for one in known if (one["name"] in names if names else _base(one["name"]) not in TIMES)]
    of_epochs = {_base(one["name"]) for one in known if one["rank"] == OVER_ALL_RANKS}
    shown = [one for one in known if one["rank"] == (OVER_ALL_RANKS if _base(one["name"]) in of_epochs else 0)]
    shown.sort(key=lambda one: (_place(_base(one["name"])), one["name"].startswith("val_")))
    groups = [list(group) for _, group in groupby(shown, lambda one: _base(one["name"]))]
    return [_plot(group, width, height, colour) for group in (groups if names else groups[:_MOST])]


def _plot(group: Sequence[Json], width: int, height: int, colour: bool) -> str:
    figure = plotille.Figure()
    # The scale at the left and the frame take 14 columns.
    figure.width, figure.height, figure.with_colors = max(width - 14, 20), height, colour
    figure.color_mode = "names"
    figure.origin = False  # no axes through zero: a loss never reaches it
    over_epochs = group[0]["rank"] == OVER_ALL_RANKS
    figure.x_label, figure.y_label = "epoch" if over_epochs else "step", plain(_base(group[0]["name"]))
    figure.register_label_formatter(float, _label)
    figure.register_label_formatter(int, _label)
    first, last = (end(x for one in group for x in one["x"]) for end in (min, max))
    figure.set_x_limits(min_=min(first, 1), max_=max(last, 2))
    for one, tint, mark in zip(group, _COLOURS, _MARKS, strict=False):
        points = [(x, y) for x, y in zip(one["x"], one["y"], strict=True) if y is not None]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        figure.plot(xs, ys, label=plain(one["name"]), lc=tint if colour else None, marker=None if colour else mark)
    shown: str = figure.show(legend=True)
    return "\n".join(line.rstrip("\N{BRAILLE PATTERN BLANK} ") for line in shown.splitlines())


def _base(name: str) -> str:
    return name.removeprefix("val_")


def _place(base: str) -> tuple[int, str]:
    return (_FIRST.index(base) if base in _FIRST else len(_FIRST), base)


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:
    """A tick in at most `chars` columns; `delta` is the distance to the next tick."""
    del delta
    text = f"{value:.4g}"
    return text.ljust(chars) if left else text.rjust(chars)
