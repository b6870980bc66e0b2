"""What was probably meant by a misspelt name. Pure; used wherever a name of a person is compared with known ones."""

from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from functools import lru_cache

MOST_PROPOSALS = 50  # for one request: to compare names takes long
_LONGEST = 128  # characters of a text that is compared: the time grows with their square
_MOST = 1000  # names that are compared


def similar_to(given: object, names: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The known name that is most similar to the one given. None: there is none, or it is a known one itself."""
    if not isinstance(given, str) or not 0 < len(given) <= _LONGEST:
        return None
    return _similar(given, tuple(names)[:_MOST], cutoff)


@lru_cache(maxsize=128)  # the cells of a study have the same mistake
def _similar(given: str, known: tuple[str, ...], cutoff: float) -> str | None:
    if given in known:
        return None
    by_folded = {name.casefold(): name for name in reversed(known)}  # the first of several
    similar = get_close_matches(given.casefold(), by_folded, n=1, cutoff=cutoff)
    return by_folded[similar[0]] if similar else None


def each_meant(given: Sequence[str], names: Iterable[str]) -> list[str]:
    """The end of a sentence about each name. Only the first ones are compared: no answer names more of them."""
    known = list(names)
    return [meant(one, known) if place < MOST_PROPOSALS else "" for place, one in enumerate(given)]


def meant(given: object, names: Iterable[str], mark: str = "", *, cutoff: float = 0.6) -> str:
    """The end of a sentence that proposes the similar name, between marks; empty if there is none."""
    similar = similar_to(given, names, cutoff)
    return "" if similar is None else f"; did you mean {mark}{similar}{mark}?"
