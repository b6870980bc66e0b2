"""Which rows of a table that only grows were told to somebody, where ids become visible out of order.

An id is given when a row is written, and its transaction commits later: a row can appear after one of a greater id was
read. So what was told is not one number but a `floor`, up to which no row can appear any more, and the ids beyond it
that were told. `api.live.changes.Horizons` finds out where the floor is; `api.live` keeps the rest short.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

MOST_RUNS = 200

Id = Annotated[int, Field(ge=0, lt=2**62)]


class Told(BaseModel):
    """Every row up to `floor`, and those with ids in `beyond`: runs of ids, first and last, ascending."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: Id = 0
    beyond: Annotated[tuple[tuple[Id, Id], ...], Field(max_length=MOST_RUNS)] = ()

    def and_also(self, ids: Sequence[int], *, floor: int) -> "Told":
        """These were told as well: all there were. No row up to `floor` can appear any more.

        More than `MOST_RUNS` runs beyond it are not kept: the oldest are taken for settled, so that a transaction that
        stays open for ever costs what appears in it, and nothing else.
        """
        runs = _runs(chain(self.beyond, ((each, each) for each in ids)))
        if not runs:
            return self
        settled = max(self.floor, min(floor, runs[-1][1]))
        runs = [(max(first, settled + 1), last) for first, last in runs if last > settled]
        if len(runs) > MOST_RUNS:
            settled = runs[-MOST_RUNS - 1][1]
        return Told(floor=settled, beyond=tuple(runs[-MOST_RUNS:]))

    @property
    def multirange(self) -> str:
        """`beyond` as PostgreSQL writes an int8multirange."""
        return "{" + ",".join(f"[{first},{last}]" for first, last in self.beyond) + "}"


def _runs(given: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for first, last in sorted(given):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs
