"""What a run that is imported may bring, besides its bytes. All of it becomes rows of one transaction. Pure."""

from jobs.intake.tail import MAX_READ_BYTES
from jobs.model.problems import FieldProblem, InvalidSpec

MOST_LINES = 2_000_000  # of logs
MOST_EVENTS = 100_000  # records that become events
MOST_VALUES = 300_000  # of epochs, over all ranks, and of steps that do not ascend: each is a row
MOST_VALUES_OF_RANKS = 1_000_000  # of epochs of one rank: each is a row
MOST_METRICS = 1000  # names
MOST_LEFT_OUT = 1000  # lines that are no records
MOST_RECORD_BYTES = MAX_READ_BYTES  # the intake would split a longer one


class Bound:
    """Counts one part of a run."""

    def __init__(self, what: str, most: int) -> None:
        self._what, self._most = what, most
        self._count = 0

    def add(self, count: int, place: str) -> None:
        """Count what is at this place. Raises `InvalidSpec` if it is too much."""
        self._count += count
        if self._count > self._most:
            raise wrong(place, f"a run may have at most {self._most} {self._what}, and this one has {self._count} here")


def wrong(field: str, message: str) -> InvalidSpec:
    """The error to raise for one part of a run."""
    return InvalidSpec([FieldProblem(field, message)])
