"""Turns what scripts report into points of series. Used by the builder of batches. No I/O.

A script may report in any sequence and as much as it likes. So here is decided which step and epoch a value belongs to,
and what is left out: steps of a series ascend, and a job has a limited number of series and of values without a step.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from jobs.model.goals import TIMES
from jobs.model.records import ProgressMade, Reported
from jobs.telemetry.ingest import ALL_RANKS

MOST_METRICS = 1000  # names in one job
MOST_WITHOUT_STEP = 300_000  # values of rank 0 in one attempt that belong to an epoch or to the run: each is a row

Series = tuple[int, str]  # rank (or all) and name

_TOO_MANY_NAMES = f"hora: a job may report {MOST_METRICS} metrics: values of further names are not stored"
_TOO_MANY_VALUES = f"hora: more than {MOST_WITHOUT_STEP} values without a step: further ones are not stored"
_NOT_ASCENDING = "hora: the steps of a metric must ascend: values of repeated and earlier steps are not stored"


class Place(NamedTuple):
    """A step and an epoch."""

    step: int
    epoch: int


NO_EPOCH = Place(-1, 0)


@dataclass(frozen=True)
class Position:
    """How far a rank has come, by its reports."""

    step: int | None = None  # its last one
    epoch: int = 1  # of the present step
    ended: Place = NO_EPOCH  # the last epoch that ended


@dataclass
class Placed:
    """The values of a report that are stored: those of a rank, or of all ranks, with the place of each."""

    rank: int
    values: Mapping[str, float]
    places: Mapping[str, Place]
    ends_epoch: bool = False  # for rank 0
    is_new_epoch: bool = False  # the first report about its end


@dataclass
class ScriptReports:
    """What an attempt's reports have said so far. A batch works on a copy, which counts when the batch is stored."""

    names: set[str] = field(default_factory=set)  # of the script's metrics
    last_steps: dict[Series, int] = field(default_factory=dict)
    positions: dict[int, Position] = field(default_factory=dict)
    without_step: int = 0
    said: frozenset[str] = frozenset()
    began: tuple[float, float] | None = None  # time and amount of the first progress

    @classmethod
    def after(cls, last_steps: Mapping[Series, int]) -> "ScriptReports":
        """What another reader of the attempt knew, as far as it is stored."""
        names = {name for _, name in last_steps if name not in TIMES}
        newest: dict[int, int] = {}
        for (rank, _), step in last_steps.items():
            newest[rank] = max(step, newest.get(rank, -1))
        # Which epoch ended last is not stored with the steps. The next one comes after all that is stored.
        positions = {rank: Position(step, ended=Place(step, 0)) for rank, step in newest.items() if rank > 0}
        positions[0] = Position(newest.get(0), ended=Place(newest.get(ALL_RANKS, -1), 0))
        return cls(names, dict(last_steps), positions)

    def copy(self) -> "ScriptReports":
        """A copy for a batch."""
        return replace(
            self, names=set(self.names), last_steps=dict(self.last_steps), positions=dict(self.positions)
        )  # fmt: skip

    def resume(self, start: Place) -> None:
        """Note that rank 0 continues after this step and epoch."""
        self.positions[0] = Position(None, start.epoch + 1, Place(-1, start.epoch))

    def take(self, rank: int, record: Reported) -> tuple[Placed, list[str]]:
        """The values of a report that are stored, and sentences for the log about others, each once."""
        sentences: list[str] = []
        if record.step is not None:
            placed = self._at_step(rank, record, record.step)
        elif record.epoch is not None:
            placed = self._at_epoch(rank, record, record.epoch)
        else:
            placed = self._at_present(rank, record)
        values = {}
        for name, value in placed.values.items():
            problem = self._admit((placed.rank, name), placed.places[name].step)
            if problem is None:
                values[name] = value
            elif problem not in self.said:
                self.said |= {problem}
                sentences.append(problem)
        return replace(placed, values=values), sentences

    def eta_s(self, record: ProgressMade) -> float | None:
        """The time that the rest will take, at the speed since the first progress. None while that is unknown."""
        if self.began is None or record.done < self.began[1]:
            self.began = record.at, record.done
        began_at, began_with = self.began
        if record.total is None or record.done <= began_with:
            return None
        return max(record.total - record.done, 0.0) * (record.at - began_at) / (record.done - began_with)

    def _position(self, rank: int) -> Position:
        return self.positions.get(rank, Position())

    def _at_step(self, rank: int, record: Reported, step: int) -> Placed:
        position = self._position(rank)
        epoch = position.epoch if record.epoch is None else record.epoch
        self.positions[rank] = replace(position, step=step, epoch=epoch)
        measured = {
            "step_time_s": record.step_time_s, "data_wait_s": record.data_wait_s, "allreduce_s": record.allreduce_s,
            "samples_per_s": record.samples_per_s,
        }  # fmt: skip
        return _all_at(rank, _with_own(measured, record), Place(step, epoch))

    def _at_epoch(self, rank: int, record: Reported, epoch: int) -> Placed:
        position = self._position(rank)
        ended = position.ended
        is_new = epoch != ended.epoch or ended.step < 0
        if is_new:
            # A script without steps counts epochs. So an epoch's number is its step.
            at = epoch if position.step is None else position.step
            ended = Place(max(at, ended.step + 1), epoch)
        self.positions[rank] = replace(position, epoch=epoch + 1, ended=ended)
        measured = {
            "epoch_s": record.wall_s, "samples_per_s": record.samples_per_s, "data_wait_s": record.data_wait_s,
            "allreduce_s": record.allreduce_s,
        }  # fmt: skip
        placed = _all_at(ALL_RANKS if rank == 0 else rank, _with_own(measured, record), ended)
        return replace(placed, ends_epoch=rank == 0, is_new_epoch=is_new)

    def _at_present(self, rank: int, record: Reported) -> Placed:
        """Values of the run so far: at the present step. A metric that is there already goes one step on."""
        position, rank = self._position(rank), ALL_RANKS if rank == 0 else rank
        present = max(position.step or 0, position.ended.step, 0)
        places = {
            name: Place(max(present, self.last_steps.get((rank, name), -1) + 1), position.ended.epoch)
            for name in record.metrics
        }
        return Placed(rank, record.metrics, places)

    def _admit(self, series: Series, step: int) -> str | None:
        """Note a value that is stored. Returns a sentence if it is not."""
        rank, name = series
        if name not in self.names and name not in TIMES:
            if len(self.names) >= MOST_METRICS:
                return _TOO_MANY_NAMES
            self.names.add(name)
        if rank == ALL_RANKS and self.without_step >= MOST_WITHOUT_STEP:
            return _TOO_MANY_VALUES
        if step <= self.last_steps.get(series, -1):
            return _NOT_ASCENDING
        self.without_step += rank == ALL_RANKS
        self.last_steps[series] = step
        return None


def _with_own(measured: Mapping[str, float | None], record: Reported) -> dict[str, float]:
    """What was measured, and the script's own numbers, which win where the names are equal."""
    return {**{name: value for name, value in measured.items() if value is not None}, **record.metrics}


def _all_at(rank: int, values: Mapping[str, float], place: Place) -> Placed:
    return Placed(rank, values, dict.fromkeys(values, place))
