"""Why an attempt ended: from the last records of its ranks, and from requests to stop it. And which ranks are gone."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from jobs.lifecycle.leases import StopRequests
from jobs.model.preemption import PreemptionCause
from jobs.model.records import RankExited, UnexplainedExit
from jobs.model.states import EndReason
from worker.attempt.ending import Ending, judge, requested_ending
from worker.attempt.rank_watch import RankWatch
from worker.attempt.script_ending import explaining_exits

if TYPE_CHECKING:
    from jobs.intake.intake import Intake

Reason = EndReason | UnexplainedExit

COMPLETED, BAD_DATA, RANK_FAILED = EndReason.COMPLETED, EndReason.BAD_DATA, EndReason.RANK_FAILED
INTERNAL, MEMORY, LEASE = EndReason.INTERNAL_ERROR, EndReason.OUT_OF_MEMORY, EndReason.LEASE_EXPIRED
SCRIPT_FAILED = EndReason.SCRIPT_FAILED
PEER_LOST, ASKED = UnexplainedExit.PEER_LOST, UnexplainedExit.STOP_REQUESTED
FAULTS = (EndReason.NO_DEVICE, BAD_DATA, MEMORY, EndReason.DIVERGED, INTERNAL)
LATE, STALLED = Ending(EndReason.TIME_LIMIT, "late"), Ending(EndReason.STALLED, "no step")
LOST, PAUSED = Ending(EndReason.HOST_LOST, "host hb: the connection broke"), Ending(EndReason.PAUSED)
FOR_JOB_X = PreemptionCause.for_job("x")


def judged(*reported: Reason | None, messages: Mapping[int, str] | None = None, **more: Any) -> Ending:
    exits = {
        rank: RankExited(at=1.0, reason=reason, message=(messages or {}).get(rank))
        for rank, reason in enumerate(reported)
        if reason is not None
    }
    usual = {
        "started": len(reported),
        "stopped_for": None,
        "launcher_code": 1,
        "launcher_says": "",
        "per_gpu_batch": 64,
    }
    return judge(exits, ranks=len(reported), **(usual | more))


@pytest.mark.parametrize(
    ("reported", "more", "expected"),
    [
        # All ranks say so, whatever else happened.
        ([COMPLETED, COMPLETED], {"launcher_code": 0}, Ending(COMPLETED)),
        ([COMPLETED, COMPLETED], {"stopped_for": LATE}, Ending(COMPLETED)),
        ([EndReason.EARLY_STOPPED] * 2, {}, Ending(EndReason.EARLY_STOPPED)),
        # A fault of one rank is that of the attempt.
        *(([PEER_LOST, fault], {"messages": {1: "because"}}, Ending(fault, "because")) for fault in FAULTS),
        *(([COMPLETED, fault], {}, Ending(fault, f"rank 1 ended: {fault}")) for fault in FAULTS),
        *(([fault, None], {"stopped_for": STALLED}, fault) for fault in FAULTS),
        # Bad data outranks memory, and that internal errors; of equal ones the lowest rank is quoted.
        ([INTERNAL, MEMORY, BAD_DATA], {"messages": {2: "torn file"}}, Ending(BAD_DATA, "torn file")),
        ([INTERNAL, MEMORY], {}, MEMORY),
        ([BAD_DATA, BAD_DATA], {"messages": {0: "mine", 1: "also mine"}}, Ending(BAD_DATA, "mine")),
        # A stop gives its reason.
        *(([ASKED, ASKED], {"stopped_for": stop}, stop) for stop in (LATE, STALLED, LOST)),
        ([PEER_LOST, None], {"stopped_for": LATE}, LATE),
        ([None, None], {"stopped_for": LATE, "started": 0}, LATE),
        # Nobody stopped it, and nothing explains it.
        ([COMPLETED, None], {"launcher_code": 0}, RANK_FAILED),
        ([ASKED, ASKED], {}, RANK_FAILED),
        ([PEER_LOST, PEER_LOST], {}, RANK_FAILED),
        ([COMPLETED, PEER_LOST], {}, RANK_FAILED),
        # An expired lease explains it, unless there is a fault or a stop.
        ([LEASE, PEER_LOST, LEASE], {}, Ending(LEASE, "rank 0, 2 left: nobody extended its lease")),
        ([LEASE, BAD_DATA], {}, BAD_DATA),
        ([PEER_LOST, LEASE], {"stopped_for": LOST}, LOST),
    ],
)
def test_the_ranks_and_a_stop_decide_how_an_attempt_ended(
    reported: Sequence[Reason | None], more: dict[str, Any], expected: Ending | EndReason
) -> None:
    ending = judged(*reported, **more)
    assert (ending if isinstance(expected, Ending) else ending.reason) == expected


def test_stored_error_names_no_folder_of_the_host() -> None:
    ending = judged(None, started=0, launcher_says='File "/opt/hora/run.py", line 7 | sh: /bin/env: not found')
    assert ending.reason is EndReason.LAUNCH_FAILED
    assert ending.error == 'no rank started; the launcher said: File "run.py", line 7 | sh: env: not found'
    assert "nothing" in (judged(None, started=0).error or "")
    bad_data = Ending(BAD_DATA, "/srv/data/chips/1: 2 of 3 samples are damaged; see /srv/hora/runs/a")
    shortened = bad_data.without_folders(Path("/srv/data"), Path("/srv/hora"))
    assert shortened == Ending(BAD_DATA, "chips/1: 2 of 3 samples are damaged; see runs/a")


def told_by_horovodrun(rank: int, code: int) -> str:
    """The last lines of horovodrun's log after a rank failed."""
    return f"job to be terminated. The first process to do so was: | Process name: {rank} | Exit code: {code} | "


def test_a_rank_that_died_without_a_record_is_named_and_one_that_was_killed_gets_advice() -> None:
    silent = judged(PEER_LOST, None, PEER_LOST, launcher_code=137)
    assert silent.reason is RANK_FAILED
    assert all(words in (silent.error or "") for words in ("rank 1 ", "137"))
    killed = judged(PEER_LOST, None, launcher_says=told_by_horovodrun(1, 137))
    assert killed.reason is RANK_FAILED
    assert (killed.error or "").startswith("rank 1 was killed (SIGKILL)")
    assert (killed.error or "").endswith("try a batch of 32 per GPU")
    single = judged(None, launcher_says=told_by_horovodrun(0, 137), per_gpu_batch=1).error or ""
    assert single.endswith("try a smaller model")
    for rank, code in ((1, 1), (1, 1370), (0, 137)):  # it failed, another code, it said why it left
        ending = judged(PEER_LOST, None, launcher_says=told_by_horovodrun(rank, code))
        assert "died without a word" in (ending.error or "")


@pytest.mark.parametrize(
    ("cancelled", "paused", "preemption", "end"),
    [
        (False, False, None, None),
        (False, False, FOR_JOB_X, Ending(EndReason.PREEMPTED, "to make room for job x")),
        (False, False, PreemptionCause.drained("ha"), Ending(EndReason.PREEMPTED, "because host ha is drained")),
        (False, True, FOR_JOB_X, PAUSED),
        (True, True, FOR_JOB_X, Ending(EndReason.CANCELLED)),
    ],
)
def test_cancel_wins_over_pause_and_pause_over_preemption(
    cancelled: bool, paused: bool, preemption: PreemptionCause | None, end: Ending | None
) -> None:
    requests = StopRequests(cancel_requested=cancelled, pause_requested=paused, preemption=preemption)
    assert requested_ending(requests) == end


def script_judged(
    *reported: tuple[float, Reason] | None,
    launcher_says: str = "",
    stopped_at: float | None = None,
    has_saved: bool = False,
) -> Ending:
    """The end of a script whose ranks left at these times. If it was asked to stop, that was a pause."""
    exits = {
        rank: RankExited(at=one[0], reason=one[1], message=f"rank {rank} says {one[1]}")
        for rank, one in enumerate(reported)
        if one is not None
    }
    explaining = explaining_exits(exits, launcher_says=launcher_says, stopped_at=stopped_at, has_saved=has_saved)
    return judge(
        explaining, ranks=len(reported), started=len(reported), stopped_for=None if stopped_at is None else PAUSED,
        launcher_code=1, launcher_says=launcher_says, per_gpu_batch=None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("reported", "rank", "reason"),
    [
        ([(2.0, SCRIPT_FAILED), (1.0, MEMORY)], 1, MEMORY),
        ([(1.0, SCRIPT_FAILED), (2.0, MEMORY)], 0, SCRIPT_FAILED),
        ([(3.0, SCRIPT_FAILED), (2.0, RANK_FAILED)], 1, RANK_FAILED),
        ([(1.0, PEER_LOST), (2.0, SCRIPT_FAILED)], 1, SCRIPT_FAILED),
        ([None, (2.0, EndReason.NO_SPACE)], 1, EndReason.NO_SPACE),
    ],
)
def test_the_earliest_failure_explains_the_end_of_a_script(
    reported: list[tuple[float, Reason] | None], rank: int, reason: EndReason
) -> None:
    assert script_judged(*reported) == Ending(reason, f"rank {rank} says {reason}")


def test_a_script_that_fails_is_restarted_only_if_it_saved_a_checkpoint() -> None:
    failed, lost = (1.0, SCRIPT_FAILED), (2.0, PEER_LOST)
    assert script_judged(failed, lost).reason is SCRIPT_FAILED
    assert script_judged(failed, lost, has_saved=True) == Ending(RANK_FAILED, "rank 0 says script_failed")
    assert script_judged((1.0, MEMORY), has_saved=True).reason is MEMORY


def test_a_killed_rank_explains_the_failures_of_its_peers() -> None:
    def of_peer(rank: int, code: int) -> Ending:
        return script_judged((2.0, SCRIPT_FAILED), None, launcher_says=told_by_horovodrun(rank, code))

    said = "rank 1 was killed (SIGKILL), as the kernel does when memory runs out"
    assert of_peer(1, 137) == Ending(RANK_FAILED, said)
    assert "rank 1 died without a word" in (of_peer(1, 255).error or "")
    assert of_peer(0, 137).reason is SCRIPT_FAILED


def test_a_script_that_was_asked_to_stop_failed_only_if_that_was_before() -> None:
    assert script_judged((9.0, SCRIPT_FAILED), (8.0, COMPLETED), stopped_at=5.0) == PAUSED
    assert script_judged((4.0, SCRIPT_FAILED), None, stopped_at=5.0).reason is SCRIPT_FAILED
    assert script_judged((6.0, COMPLETED), (6.0, COMPLETED), stopped_at=5.0) == Ending(COMPLETED)
    assert script_judged((6.0, COMPLETED), (6.0, ASKED), stopped_at=5.0) == PAUSED
    assert script_judged((6.0, EndReason.EARLY_STOPPED), (6.0, COMPLETED)).reason is EndReason.EARLY_STOPPED


HERE, GONE = os.getpid(), 2**22 + 1  # a pid above the largest that Linux gives


@pytest.mark.parametrize(
    ("pids", "completed", "gone", "gone_if_it_trains"),
    [
        ({}, (), False, False),
        ({0: HERE, 1: HERE}, (), False, False),
        ({0: GONE, 1: HERE}, (), True, True),
        ({0: GONE, 1: HERE}, (0,), False, True),  # the others of a training need it in each step
        ({0: GONE}, (0,), False, True),  # the other one starts late, as on a busy host
        ({0: GONE, 1: GONE}, (0,), True, True),
        ({0: GONE, 1: GONE}, (0, 1), True, True),
    ],
)
def test_a_rank_of_a_script_that_completed_is_not_gone_before_the_others(
    pids: Mapping[int, int], completed: tuple[int, ...], gone: bool, gone_if_it_trains: bool
) -> None:
    exits = {rank: RankExited(at=0.0, reason=COMPLETED) for rank in completed}
    for is_script, expected in ((True, gone), (False, gone_if_it_trains)):
        intake = SimpleNamespace(is_script=is_script, pids=pids, exits=exits)
        watch = RankWatch(cast("Intake", intake), range(2), ranks=2, started_at=None)
        assert any(watch.one_is_gone_for(-1.0) for _ in range(2)) == expected
