"""Which rows of a table were sent, when ids become visible out of sequence."""

from hypothesis import given
from hypothesis import strategies as st

from api.live.changes import jobs_in
from api.live.sent_rows import MOST_RUNS, SentRows


def has(sent: SentRows, row_id: int) -> bool:
    return row_id <= sent.floor or any(first <= row_id <= last for first, last in sent.beyond)


@given(st.lists(st.sets(st.integers(1, 80), min_size=1), max_size=6), st.integers(0, 90))
def test_sent_rows_above_the_floor_are_exactly_those_that_were_sent(batches: list[set[int]], floor: int) -> None:
    sent = SentRows()
    for batch in batches:
        sent = sent.with_rows(sorted(batch), floor=0)
    everything = set().union(*batches)
    assert {each for each in range(1, 100) if has(sent, each)} == everything
    settled = sent.with_rows([], floor=floor)
    assert all(has(settled, each) for each in everything)
    assert settled.floor <= floor
    assert not any(has(settled, each) for each in range(floor + 1, 100) if each not in everything)
    assert settled.floor <= max(everything, default=0)  # never above the newest sent row: nothing above was read


def test_adjacent_ids_become_one_run() -> None:
    sent = SentRows().with_rows([3, 4, 5, 9], floor=0).with_rows([6], floor=0)
    assert sent.beyond == ((3, 6), (9, 9))
    assert sent.multirange == "{[3,6],[9,9]}"


def test_floor_moves_over_the_oldest_runs_when_there_are_too_many() -> None:
    sent = SentRows().with_rows(range(2, 2 * MOST_RUNS + 6, 2), floor=0)
    assert len(sent.beyond) == MOST_RUNS
    assert sent.floor == 4
    assert sent.beyond[0] == (6, 6)


def test_hint_names_its_jobs_or_means_all_jobs() -> None:
    assert jobs_in("a b") == {"a", "b"}
    assert jobs_in("*") is None
