"""Tables and lists of facts that fit into a terminal of any width and break no word. Used by all of `hora.render`."""

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Column, Table
from rich.text import Text

from hora.render.text import plain_lines

_GAP = 2  # between two columns
_SHORT = 16  # a cell that is no longer has one line
_LEAST_CUT = 14  # so much is left of a text that is cut


class FittingTable(Table):
    """A table without lines. If it does not fit, texts are cut and columns left out; in the end each row is a list."""

    def __init__(self) -> None:
        super().__init__(box=None, pad_edge=False, header_style="bold")
        self.optional: set[int] = set()  # places of columns
        self.cut: set[int] = set()

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw the table as it fits."""
        shown = list(range(len(self.columns)))
        ranges = {place: self._range(console, options, place) for place in shown}
        for place in (*reversed(shown), None):
            room = options.max_width - _GAP * (len(shown) - 1) - sum(ranges[each].minimum for each in shown)
            if room >= 0:
                yield self._of_widths(self._widths(shown, ranges, room))
                return
            if place in self.optional:
                shown.remove(place)
        yield self._as_lists()

    def _range(self, console: Console, options: ConsoleOptions, place: int) -> Measurement:
        """The widths that a column may have."""
        column = self.columns[place]
        head = Measurement.get(console, options, column.header)
        cells = [Measurement.get(console, options, cell) for cell in column.cells]
        most = max((cell.maximum for cell in cells), default=0)
        words = max((cell.minimum for cell in cells), default=0)
        least = most if most <= _SHORT else min(most, _LEAST_CUT) if place in self.cut else words
        return Measurement(max(head.minimum, least), max(head.maximum, most))

    def _widths(self, shown: Sequence[int], ranges: Mapping[int, Measurement], room: int) -> dict[int, int]:
        """The width of each column: what is more than the least goes to those that are not cut first."""
        widths = {place: ranges[place].minimum for place in shown}
        for place in sorted(shown, key=lambda each: each in self.cut):
            more = min(room, ranges[place].maximum - widths[place])
            widths[place] += more
            room -= more
        return widths

    def _of_widths(self, widths: Mapping[int, int]) -> Table:
        columns = [self.columns[place] for place in widths]
        table = Table(
            *(
                Column(
                    column.header, justify=column.justify, width=width, no_wrap=place in self.cut,
                    overflow="ellipsis" if place in self.cut else "fold",
                )
                for column, (place, width) in zip(columns, widths.items(), strict=True)
            ),
            box=None, pad_edge=False, header_style="bold",
        )  # fmt: skip
        for row in zip(*(column.cells for column in columns), strict=True):
            table.add_row(*row)
        return table

    def _as_lists(self) -> Table:
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold")
        table.add_column(overflow="fold")
        for row in zip(*(column.cells for column in self.columns), strict=True):
            if table.row_count:
                table.add_row()
            for column, cell in zip(self.columns, row, strict=True):
                table.add_row(column.header, cell)
        return table


def table_of(*columns: str) -> FittingTable:
    """A table. After the name of a column: `>` it holds figures, `…` its texts may be cut, `?` it may be left out."""
    table = FittingTable()
    for place, column in enumerate(columns):
        name = column.rstrip(">…?")
        signs = column[len(name) :]
        table.add_column(name, justify="right" if ">" in signs else "left")
        table.optional |= {place} if "?" in signs else set()
        table.cut |= {place} if "…" in signs else set()
    return table


def facts(*groups: Mapping[str, object]) -> Table:
    """One line a row, or several if its text has several. A row with None is left out.

    Rows of different groups may have the same name.
    """
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="bold")
    table.add_column(overflow="fold")
    rows: Iterable[tuple[str, object]] = chain.from_iterable(group.items() for group in groups)
    for name, value in rows:
        if value is not None:
            shown: RenderableType = value if isinstance(value, Text) else Text(plain_lines(value))
            table.add_row(name, shown)
    return table
