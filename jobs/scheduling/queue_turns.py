"""Says whose turn it is in a fair queue: which jobs come before a job, and why. Pure; for `jobs.scheduling.queue`."""

from collections.abc import Mapping
from itertools import pairwise

from jobs.scheduling.contenders import Account
from jobs.scheduling.queue_places import Place, QueueSequence

# Why other jobs come first, in words: of one job, and of several.
_HIGHER = "of higher priority", "of higher priority"
_WAITED = "that has waited for 12 hours", "that have waited for 12 hours"
_LOWER_LEVEL = "of a lower level", "of a lower level"
_HAD_LESS = "of a user who has had less", "of users who have had less"
_EARLIER = "submitted earlier", "submitted earlier"
_Why = tuple[str, str]


def turn_text(sequence: QueueSequence, place: Place, account: Account) -> str | None:
    """Which jobs come before one of this account, and why: a clause. None: nothing does, or nobody takes turns."""
    if place.number == 1 or not sequence.uses:
        return None
    count = place.number - 1
    use = sequence.use_of(account)
    if use.is_over and not place.stretch.oldest:
        shares = f"used {use.used_part:.0%} of the slots lately, entitled to {use.entitled_part:.0%}"
        return f"{_come_first(count)}, because {account.user} is over the share ({shares.replace('%', ' %')})"
    counts = {why: number for why, number in _counts(sequence, place).items() if number}
    if len(counts) == 1:
        ((of_one, of_several),) = counts
        return _come_first(count, of_one if count == 1 else of_several)
    parts = ", ".join(f"{number:,} {why[number > 1]}" for why, number in counts.items())
    return f"{_come_first(count)}: {parts}"


def _come_first(count: int, what: str = "") -> str:
    of_these = f" {what}" if what else ""
    return f"1 job{of_these} comes first" if count == 1 else f"{count:,} jobs{of_these} come first"


def _counts(sequence: QueueSequence, place: Place) -> Mapping[_Why, int]:
    """How many jobs come first for which reason, the most important reason first."""
    own = place.stretch
    # Each reason has a part of the sequence of its own, and they follow each other.
    begins = [
        sequence.begin_of(own.priority),
        sequence.begin_of(own.priority, own.turn[:1]),
        sequence.begin_of(own.priority, own.turn[:3]),
        own.before,
        place.number - 1,
    ]
    parts = [begins[0], *(after - before for before, after in pairwise(begins))]
    return dict(zip((_HIGHER, _WAITED, _LOWER_LEVEL, _HAD_LESS, _EARLIER), parts, strict=True))
