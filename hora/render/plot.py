"""Metrics as plots in the terminal. Pure; called by the CLI."""

from collections.abc import Sequence
from itertools import groupby
from math import ceil, floor, log10

import plotille

from hora.errors import Json
from hora.render.text import plain
from jobs.model.goals import TIMES

OVER_ALL_RANKS = -1
_FIRST = ("loss", "accuracy")  # the order of the plots; others follow by name
_MOST = 20  # plots, unless metrics are named
_COLOURS = ("cyan", "yellow")  # training, validation
_MARKS = (None, "x")  # colours alone do not tell two lines apart for everybody
_TICK = 10  # columns from a tick of the lower scale to the next one
_MANTISSAS = (1.0, 2.0, 2.5, 5.0)  # of round numbers
_ROUNDING = 1e-9


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
    ticks = max(width - 14, 20) // _TICK
    left, right, ticks = _round_scale([x for one in group for x in one["x"]], most=ticks, is_whole=True)
    bottom, top, rows = _round_scale([y for one in group for y in one["y"] if y is not None], most=height)
    figure.width, figure.height, figure.with_colors = ticks * _TICK, rows, colour
    figure.set_x_limits(min_=left, max_=right)
    figure.set_y_limits(min_=bottom, max_=top)
    figure.color_mode = "names"
    figure.origin = False  # no axes through zero: a loss never reaches it
    over_epochs = group[0]["rank"] == OVER_ALL_RANKS
    figure.x_label, figure.y_label = "epoch" if over_epochs else "step", plain(_base(group[0]["name"]))
    figure.register_label_formatter(float, _label)
    figure.register_label_formatter(int, _label)
    for one, tint, mark in zip(group, _COLOURS, _MARKS, strict=False):
        points = [(x, y) for x, y in zip(one["x"], one["y"], strict=True) if y is not None]
        xs, ys = [x for x, _ in points], [y for _, y in points]
        figure.plot(xs, ys, label=plain(one["name"]), lc=tint if colour else None, marker=mark)
    shown: str = figure.show(legend=True)
    return "\n".join(line.rstrip("\N{BRAILLE PATTERN BLANK} ") for line in shown.splitlines())


def _round_scale(values: Sequence[float], *, most: int, is_whole: bool = False) -> tuple[float, float, int]:
    """A scale for these values: where it begins and ends, and the number of its equal, round steps, at most `most`."""
    low, high = min(values), max(values)
    if low == high:
        low, high = (low, low + 1) if is_whole else (low - abs(low or 1) / 2, low + abs(low or 1) / 2)
    power = floor(log10((high - low) / most))
    sizes = (mantissa * 10.0**exponent for exponent in (power, power + 1) for mantissa in _MANTISSAS)
    for size in sizes:
        first, last = floor(low / size + _ROUNDING), ceil(high / size - _ROUNDING)
        if last - first <= most and not (is_whole and size % 1):
            return first * size, last * size, last - first
    raise AssertionError("a step of ten times the range is always enough")


def _base(name: str) -> str:
    return name.removeprefix("val_")


def _place(base: str) -> tuple[int, str]:
    return (_FIRST.index(base) if base in _FIRST else len(_FIRST), base)


def _label(value: float, chars: int, delta: float, left: bool = False) -> str:
    """A tick in at most `chars` columns; `delta` is the distance to the next tick."""
    del delta
    text = f"{value:.4g}"
    return text.ljust(chars) if left else text.rjust(chars)
