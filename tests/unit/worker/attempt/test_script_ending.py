"""Which exit record of a script explains the end of an attempt."""

import pytest

from jobs.model.records import RankExited, UnexplainedExit
from jobs.model.states import EndReason
from worker.attempt.ending import Ending, judge
from worker.attempt.script_ending import explaining_exits

Exit = tuple[float, EndReason | UnexplainedExit]
PAUSED = Ending(EndReason.PAUSED)


def judged(
    *reported: Exit | None,
    launcher_says: str = "",
    stopped_for: Ending | None = None,
    stopped_at: float | None = None,
    has_saved: bool = False,
) -> Ending:
    exits = {
        rank: RankExited(at=one[0], reason=one[1], message=f"rank {rank} says {one[1]}")
        for rank, one in enumerate(reported)
        if one is not None
    }
    explaining = explaining_exits(exits, launcher_says=launcher_says, stopped_at=stopped_at, has_saved=has_saved)
    return judge(
        explaining, ranks=len(reported), started=len(reported), stopped_for=stopped_for, launcher_code=1,
        launcher_says=launcher_says, per_gpu_batch=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reported", "rank", "reason"),
    [
        ([(2.0, EndReason.SCRIPT_FAILED), (1.0, EndReason.OUT_OF_MEMORY)], 1, EndReason.OUT_OF_MEMORY),
        ([(1.0, EndReason.SCRIPT_FAILED), (2.0, EndReason.OUT_OF_MEMORY)], 0, EndReason.SCRIPT_FAILED),
        ([(3.0, EndReason.SCRIPT_FAILED), (2.0, EndReason.RANK_FAILED)], 1, EndReason.RANK_FAILED),
        ([(3.0, EndReason.SCRIPT_FAILED), (2.0, EndReason.SCRIPT_FAILED)], 1, EndReason.SCRIPT_FAILED),
        ([(1.0, UnexplainedExit.PEER_LOST), (2.0, EndReason.SCRIPT_FAILED)], 1, EndReason.SCRIPT_FAILED),
        ([None, (2.0, EndReason.NO_SPACE)], 1, EndReason.NO_SPACE),
    ],
)
def test_the_earliest_failure_explains_the_end(reported: list[Exit | None], rank: int, reason: EndReason) -> None:
    message = next(f"rank {rank} says {one[1]}" for one in [reported[rank]] if one is not None)
    assert judged(*reported) == Ending(reason, message)


def test_a_script_that_fails_is_restarted_only_if_it_saved_a_checkpoint() -> None:
    failed = (1.0, EndReason.SCRIPT_FAILED)
    assert judged(failed, (2.0, UnexplainedExit.PEER_LOST)).reason is EndReason.SCRIPT_FAILED
    restarted = judged(failed, (2.0, UnexplainedExit.PEER_LOST), has_saved=True)
    assert restarted == Ending(EndReason.RANK_FAILED, "rank 0 says script_failed")
    assert judged((1.0, EndReason.OUT_OF_MEMORY), has_saved=True).reason is EndReason.OUT_OF_MEMORY


def test_a_killed_rank_explains_the_failures_of_its_peers() -> None:
    said = "The first process to do so was: | Process name: 1 | Exit code: 137 | "
    ending = judged((2.0, EndReason.SCRIPT_FAILED), None, launcher_says=said)
    assert ending == Ending(
        EndReason.RANK_FAILED, "rank 1 was killed (SIGKILL), as the kernel does when memory runs out"
    )
    of_another_kind = judged((2.0, EndReason.SCRIPT_FAILED), None, launcher_says=said.replace("137", "255"))
    assert "rank 1 died without a word" in (of_another_kind.error or "")
    itself = judged((2.0, EndReason.SCRIPT_FAILED), None, launcher_says=said.replace("name: 1", "name: 0"))
    assert itself.reason is EndReason.SCRIPT_FAILED


def test_a_failure_after_a_request_to_stop_is_no_failure() -> None:
    later = judged((9.0, EndReason.SCRIPT_FAILED), (8.0, EndReason.COMPLETED), stopped_for=PAUSED, stopped_at=5.0)
    assert later == PAUSED
    earlier = judged((4.0, EndReason.SCRIPT_FAILED), None, stopped_for=PAUSED, stopped_at=5.0)
    assert earlier.reason is EndReason.SCRIPT_FAILED


def test_a_script_that_finished_while_it_was_asked_to_stop_is_complete() -> None:
    done, stopped = (6.0, EndReason.COMPLETED), (6.0, UnexplainedExit.STOP_REQUESTED)
    assert judged(done, done, stopped_for=PAUSED, stopped_at=5.0) == Ending(EndReason.COMPLETED)
    assert judged(done, stopped, stopped_for=PAUSED, stopped_at=5.0) == PAUSED
    assert judged((6.0, EndReason.EARLY_STOPPED), done).reason is EndReason.EARLY_STOPPED
