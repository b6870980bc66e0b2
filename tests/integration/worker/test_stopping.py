"""An attempt is ended in order: asked by a file, then by SIGTERM, then killed."""

from pathlib import Path

import pytest

from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.processes import marked
from worker.stopping import stop

# Writes what reaches it, in the order it does; `sleep 0.05 &` and `wait` let a trap run at once.
RANK = """
trap 'echo term >> {told}; {on_term}' TERM
echo up >> {told}
while [ ! -e {stop} ]; do sleep 0.05 & wait; done
echo file >> {told}
{on_file}
while true; do sleep 0.05 & wait; done
"""


@pytest.fixture
def told(tmp_path: Path) -> Path:
    return tmp_path / "told"


@pytest.fixture
def stop_file(tmp_path: Path) -> Path:
    return tmp_path / "stop"


def rank(start: Start, mark: str, told: Path, stop_file: Path, *, on_file: str = "", on_term: str = "") -> int:
    """Start a rank that does as told by the file and by SIGTERM."""
    child = start(RANK.format(told=told, stop=stop_file, on_file=on_file, on_term=on_term))
    until(lambda: told.exists() and "up" in told.read_text())
    assert child.pid in marked(mark)
    return child.pid


def stopped(mark: str, stop_file: Path | None, *, file_s: float = 5, term_s: float = 5) -> tuple[bool, int]:
    """Stop the attempt; says whether it is clean, and how often the time was used for something else."""
    looks = 0

    def meanwhile() -> None:
        nonlocal looks
        looks += 1

    clean = stop(
        mark, stop_file=stop_file, stop_file_grace_s=file_s, sigterm_grace_s=term_s, meanwhile=meanwhile
    )  # fmt: skip
    assert marked(mark) == []
    return clean, looks


def test_a_rank_that_leaves_at_the_file_is_sent_no_signal(mark: str, start: Start, told: Path, stop_file: Path) -> None:
    rank(start, mark, told, stop_file, on_file="exit 0")
    clean, looks = stopped(mark, stop_file, file_s=30)
    assert clean
    assert looks > 0
    assert told.read_text().split() == ["up", "file"]


def test_a_rank_that_does_not_leave_at_the_file_is_terminated_after_it(
    mark: str, start: Start, told: Path, stop_file: Path
) -> None:
    rank(start, mark, told, stop_file, on_term="exit 0")
    assert stopped(mark, stop_file, file_s=0.5)[0]
    assert told.read_text().split() == ["up", "file", "term"]


def test_a_rank_that_does_neither_is_killed(mark: str, start: Start, told: Path, stop_file: Path) -> None:
    rank(start, mark, told, stop_file)
    assert stopped(mark, stop_file, file_s=0.5, term_s=0.5)[0]
    assert told.read_text().split() == ["up", "file", "term"]


def test_without_a_file_the_ranks_are_terminated_at_once(mark: str, start: Start, told: Path, stop_file: Path) -> None:
    rank(start, mark, told, stop_file, on_term="exit 0")
    assert stopped(mark, None)[0]
    assert told.read_text().split() == ["up", "term"]
    assert not stop_file.exists()


def test_nothing_to_stop_takes_no_time(mark: str, stop_file: Path) -> None:
    assert stopped(mark, stop_file, file_s=600, term_s=600) == (True, 0)


def test_what_is_done_meanwhile_may_break_it_off(mark: str, start: Start, told: Path, stop_file: Path) -> None:
    rank(start, mark, told, stop_file)

    def lost() -> None:
        raise ConnectionError

    with pytest.raises(ConnectionError):
        stop(mark, stop_file=stop_file, stop_file_grace_s=30, sigterm_grace_s=30, meanwhile=lost)
