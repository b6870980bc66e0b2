"""What was told of a table in which ids appear out of order."""

from hypothesis import given
from hypothesis import strategies as st

from api.live.changes import jobs_in
from api.live.sent_rows import MOST_RUNS, Told


def has(told: Told, each: int) -> bool:
    return each <= told.floor or any(first <= each <= last for first, last in told.beyond)


@given(st.lists(st.sets(st.integers(1, 80), min_size=1), max_size=6), st.integers(0, 90))
def test_it_has_what_it_was_told_and_nothing_else_beyond_the_floor(batches: list[set[int]], floor: int) -> None:
    told = Told()
    for batch in batches:
        told = told.and_also(sorted(batch), floor=0)
    everything = set().union(*batches)
    assert {each for each in range(1, 100) if has(told, each)} == everything
    settled = told.and_also([], floor=floor)
    assert all(has(settled, each) for each in everything)
    assert settled.floor <= floor
    assert not any(has(settled, each) for each in range(floor + 1, 100) if each not in everything)
    assert settled.floor <= max(everything, default=0)  # never beyond what was told: the rest was not looked for


def test_neighbours_are_one_run() -> None:
    told = Told().and_also([3, 4, 5, 9], floor=0).and_also([6], floor=0)
    assert told.beyond == ((3, 6), (9, 9))
    assert told.multirange == "{[3,6],[9,9]}"


def test_the_oldest_runs_are_let_go_of() -> None:
    told = Told().and_also(range(2, 2 * MOST_RUNS + 6, 2), floor=0)
    assert len(told.beyond) == MOST_RUNS
    assert told.floor == 4
    assert told.beyond[0] == (6, 6)


def test_hints_name_jobs_or_none() -> None:
    assert jobs_in("a b") == {"a", "b"}
    assert jobs_in("*") is None
