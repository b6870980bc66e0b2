"""Lists of what the service has. Made by the `list` methods of `hora.client`.

Items     a list that is complete
Pages     a list that is fetched page by page, as far as it is needed
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING, TypeVar, overload

from pydantic import BaseModel

from hora.client.frames import frame_of
from hora.client.html import MOST_ROWS, table_of

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item", bound=BaseModel)
Item_co = TypeVar("Item_co", bound=BaseModel, covariant=True)


class Items(list[Item]):
    """A list that a notebook shows as a table."""

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each item, with the fields of the API's JSON: `spec.batch_size`, `metrics.val_loss.best`."""
        return frame_of(self)

    def _repr_html_(self) -> str:
        return table_of(self[:MOST_ROWS], has_more=len(self) > MOST_ROWS)


class Pages(Sequence[Item_co]):
    """The items of a list, fetched page by page.

    A loop fetches as it goes and keeps nothing, so it can pass a million items; the next loop asks again. `len()`, an
    index, a slice, `list()` and `to_pandas()` fetch what they need and keep it: from then on all see the same items.
    """

    def __init__(self, fetch: Callable[[], Iterator[Item_co]]) -> None:
        self._fetch = fetch
        self._kept: list[Item_co] = []
        self._behind: Iterator[Item_co] | None = None  # the items behind the kept ones; None: none was kept yet
        self._taking: Iterator[Item_co] | None = None  # what `next` takes from

    def to_pandas(self) -> "pd.DataFrame":
        """A row for each item, with the fields of the API's JSON: `spec.batch_size`, `metrics.val_loss.best`."""
        return frame_of(self[:])

    def __len__(self) -> int:
        """How many there are: fetches them all."""
        self._keep(None)
        return len(self._kept)

    def __bool__(self) -> bool:
        """Whether there is one."""
        self._keep(1)
        return bool(self._kept)

    @overload
    def __getitem__(self, place: int) -> Item_co: ...
    @overload
    def __getitem__(self, place: slice) -> Items[Item_co]: ...
    def __getitem__(self, place: int | slice) -> Item_co | Items[Item_co]:
        """An item, or some as a list. Fetches no more than is needed."""
        if isinstance(place, slice):
            is_from_start = place.stop is not None and place.stop >= 0 and (place.start or 0) >= 0
            self._keep(place.stop if is_from_start and (place.step or 1) > 0 else None)
            return Items(self._kept[place])
        self._keep(place + 1 if place >= 0 else None)
        return self._kept[place]

    def __iter__(self) -> Iterator[Item_co]:
        """All items; after a `next` those that it left."""
        # The first item decides, not the call: `list` asks for the length, which keeps all, between the two.
        if self._taking is not None:
            yield from self._taking
        elif self._behind is None:
            yield from self._fetch()
        else:
            for place in count():
                self._keep(place + 1)
                if place == len(self._kept):
                    return
                yield self._kept[place]

    def __next__(self) -> Item_co:
        """The next item: a list of pages was an iterator once."""
        if self._taking is None:
            self._taking = iter(self[:] if self._behind is not None else self._fetch())
        return next(self._taking)

    def __repr__(self) -> str:
        known = f"{len(self._kept)} fetched" if self._kept else "not fetched yet"
        return f"<{type(self).__name__}: {known}>"

    def _repr_html_(self) -> str:
        first = self[: MOST_ROWS + 1]
        return table_of(first[:MOST_ROWS], has_more=len(first) > MOST_ROWS)

    def _keep(self, number: int | None) -> None:
        """Fetch until this number of items is kept, or all."""
        if self._behind is None:
            self._behind = self._fetch()
        try:
            self._kept += islice(self._behind, None if number is None else max(number - len(self._kept), 0))
        except BaseException:
            self._kept, self._behind = [], None  # an iterator that failed looks like one that is at its end
            raise
