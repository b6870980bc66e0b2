"""Which rows of a table were sent, when ids become visible out of sequence."""

from hypothesis import given
from hypothesis import strategies as st

from api.live.changes import jobs_in
from api.live.sent_rows import MOST_RUNS, SentRows


def has(sent: SentRows, row_id: int) -> bool:
    return row_id <= sent.floor or any(first <= row_id <= last for first, last in sent.beyond)


@given(st.lists(st.sets(st.integers(1, 80), min_size=1), max_size=6), st.integers(0, 90))
def test_it_has_the_rows_that_were_sent_and_no_others_beyond_the_floor(batches: list[set[int]], floor: int) -> None:
    sent = SentRows()
    for batch in batches:
        sent = sent.with_rows(sorted(batch), floor=0)
    everything = set().union(*batches)
    assert {each for each in range(1, 100) if has(sent, each)} == everything
    settled = sent.with_rows([], floor=floor)
    assert all(has(settled, each) for each in everything)
    assert settled.floor <= floor
    assert not any(has(settled, each) for each in range(floor + 1, 100) if each not in everything)
    assert settled.floor <= max(everything, default=0)  # never beyond what was sent: the rest was not looked for


def test_neighbours_are_one_run() -> None:
    sent = SentRows().with_rows([3, 4, 5, 9], floor=0).with_rows([6], floor=0)
    assert sent.beyond == ((3, 6), (9, 9))
    assert sent.multirange == "{[3,6],[9,9]}"


def test_the_oldest_runs_are_let_go_of() -> None:
    sent = SentRows().with_rows(range(2, 2 * MOST_RUNS + 6, 2), floor=0)
    assert len(sent.beyond) == MOST_RUNS
    assert sent.floor == 4
    assert sent.beyond[0] == (6, 6)


def test_hints_name_jobs_or_none() -> None:
    assert jobs_in("a b") == {"a", "b"}
    assert jobs_in("*") is None
