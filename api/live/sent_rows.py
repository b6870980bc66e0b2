"""Which rows of a growing table a listener was sent, although ids do not become visible in sequence.

A row gets its id when it is written, and its transaction commits later. So a row can appear after one with a greater
id was read. One number is not enough, therefore: there is a `floor`, up to which no row can appear any more, and the
ids beyond it that were sent. `api.live.changes.FloorTracker` finds the floor.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

MOST_RUNS = 200

Id = Annotated[int, Field(ge=0, lt=2**62)]


def _ascending(run: tuple[int, int]) -> tuple[int, int]:
    if run[0] > run[1]:
        raise ValueError("the first id of a run is greater than the last one")
    return run


Run = Annotated[tuple[Id, Id], AfterValidator(_ascending)]


class SentRows(BaseModel):
    """All rows up to `floor`, and those with ids in `beyond`: runs of ids (first, last), ascending."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    floor: Id = 0
    beyond: Annotated[tuple[Run, ...], Field(max_length=MOST_RUNS)] = ()

    def with_rows(self, ids: Sequence[int], *, floor: int) -> "SentRows":
        """These rows and the rows with `ids`. No row up to `floor` can appear any more.

        At most `MOST_RUNS` runs are kept: the floor moves over the oldest ones. So a transaction that stays open for
        ever costs only the rows that appear in it.
        """
        runs = _merged_runs(chain(self.beyond, ((row_id, row_id) for row_id in ids)))
        if not runs:
            return self
        new_floor = max(self.floor, min(floor, runs[-1][1]))
        runs = [(max(first, new_floor + 1), last) for first, last in runs if last > new_floor]
        if len(runs) > MOST_RUNS:
            new_floor = runs[-MOST_RUNS - 1][1]
        return SentRows(floor=new_floor, beyond=tuple(runs[-MOST_RUNS:]))

    @property
    def multirange(self) -> str:
        """`beyond` as PostgreSQL writes an int8multirange."""
        return "{" + ",".join(f"[{first},{last}]" for first, last in self.beyond) + "}"


def _merged_runs(unsorted_runs: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for first, last in sorted(unsorted_runs):
        if runs and first <= runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], max(runs[-1][1], last))
        else:
            runs.append((first, last))
    return runs
