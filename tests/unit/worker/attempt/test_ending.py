"""Why an attempt ended: from the last records of its ranks, and from requests to stop it."""

from pathlib import Path

import pytest

from jobs.lifecycle.leases import StopRequests
from jobs.model.preemption import PreemptionCause
from jobs.model.records import RankExited, UnexplainedExit
from jobs.model.states import EndReason
from worker.attempt.ending import Ending, judge, requested_ending


def judged(
    *reported: EndReason | UnexplainedExit | None,
    started: int | None = None,
    stopped_for: Ending | None = None,
    messages: dict[int, str] | None = None,
    launcher_code: int | None = 1,
    launcher_says: str = "",
    per_gpu_batch: int = 64,
) -> Ending:
    exits = {
        rank: RankExited(at=1.0, reason=reason, message=(messages or {}).get(rank))
        for rank, reason in enumerate(reported)
        if reason is not None
    }
    return judge(
        exits,
        ranks=len(reported),
        started=len(reported) if started is None else started,
        stopped_for=stopped_for,
        launcher_code=launcher_code,
        launcher_says=launcher_says,
        per_gpu_batch=per_gpu_batch,
    )


FOR_JOB_X = PreemptionCause.for_job("x")


def test_attempt_completes_or_is_stopped_early_when_all_ranks_say_so_whatever_else_happened() -> None:
    completed = [EndReason.COMPLETED, EndReason.COMPLETED]
    for others in ({"launcher_code": 0}, {"launcher_code": 1}, {"stopped_for": Ending(EndReason.TIME_LIMIT, "late")}):
        assert judged(*completed, **others) == Ending(EndReason.COMPLETED)  # type: ignore[arg-type]
    assert judged(EndReason.COMPLETED, None, launcher_code=0).reason is EndReason.RANK_FAILED
    assert judged(EndReason.EARLY_STOPPED, EndReason.EARLY_STOPPED) == Ending(EndReason.EARLY_STOPPED)


def test_stored_error_names_no_folder_of_the_host() -> None:
    ending = judged(None, started=0, launcher_says='File "/opt/hora/run.py", line 7 | sh: /bin/env: not found')
    assert ending.error == 'no rank started; the launcher said: File "run.py", line 7 | sh: env: not found'
    bad_data = Ending(EndReason.BAD_DATA, "/srv/data/chips/1: 2 of 3 samples are damaged; see /srv/hora/runs/a")
    shortened = bad_data.without_folders(Path("/srv/data"), Path("/srv/hora"))
    assert shortened == Ending(EndReason.BAD_DATA, "chips/1: 2 of 3 samples are damaged; see runs/a")
    assert Ending(EndReason.COMPLETED).without_folders(Path("/srv")) == Ending(EndReason.COMPLETED)


@pytest.mark.parametrize(
    "fault", [EndReason.NO_DEVICE, EndReason.BAD_DATA, EndReason.OUT_OF_MEMORY, EndReason.INTERNAL_ERROR]
)
def test_fault_of_one_rank_is_the_end_reason_of_the_attempt(fault: EndReason) -> None:
    assert judged(UnexplainedExit.PEER_LOST, fault, messages={1: "because"}) == Ending(fault, "because")
    assert judged(None, fault).reason is fault
    assert judged(EndReason.COMPLETED, fault).error == f"rank 1 ended: {fault}"
    assert judged(fault, None, stopped_for=Ending(EndReason.STALLED, "no step")).reason is fault


def test_bad_data_outranks_out_of_memory_and_that_outranks_internal_errors() -> None:
    ending = judged(EndReason.INTERNAL_ERROR, EndReason.OUT_OF_MEMORY, EndReason.BAD_DATA, messages={2: "torn file"})
    assert ending == Ending(EndReason.BAD_DATA, "torn file")
    assert judged(EndReason.INTERNAL_ERROR, EndReason.OUT_OF_MEMORY).reason is EndReason.OUT_OF_MEMORY
    both = judged(EndReason.BAD_DATA, EndReason.BAD_DATA, messages={0: "mine", 1: "also mine"})
    assert both.error == "mine", "the lowest rank"


@pytest.mark.parametrize("reason", [EndReason.CANCELLED, EndReason.TIME_LIMIT, EndReason.STALLED, EndReason.HOST_LOST])
def test_stopped_attempt_ends_for_the_reason_of_the_stop(reason: EndReason) -> None:
    stopped = Ending(reason, "asked to")
    assert judged(UnexplainedExit.STOP_REQUESTED, UnexplainedExit.STOP_REQUESTED, stopped_for=stopped) == stopped
    assert judged(UnexplainedExit.PEER_LOST, None, stopped_for=stopped) == stopped
    assert judged(None, None, started=0, stopped_for=stopped) == stopped


def test_failed_launch_quotes_the_launcher_when_no_rank_started() -> None:
    ending = judged(None, None, started=0, launcher_says="no route to host")
    assert ending.reason is EndReason.LAUNCH_FAILED
    assert "no route to host" in (ending.error or "")
    assert "nothing" in (judged(None, started=0).error or "")


def test_a_rank_that_died_without_a_record_is_named() -> None:
    ending = judged(UnexplainedExit.PEER_LOST, None, UnexplainedExit.PEER_LOST, launcher_code=137)
    assert ending.reason is EndReason.RANK_FAILED
    assert "rank 1 " in (ending.error or "")
    assert "137" in (ending.error or "")


def test_unexplained_exits_fail_an_attempt_that_nobody_stopped() -> None:
    assert judged(UnexplainedExit.STOP_REQUESTED, UnexplainedExit.STOP_REQUESTED).reason is EndReason.RANK_FAILED
    assert judged(UnexplainedExit.PEER_LOST, UnexplainedExit.PEER_LOST).reason is EndReason.RANK_FAILED
    assert judged(EndReason.COMPLETED, UnexplainedExit.PEER_LOST).reason is EndReason.RANK_FAILED


def told_by_horovodrun(rank: int, code: int) -> str:
    """The last lines of horovodrun's log after a rank failed."""
    return f"job to be terminated. The first process to do so was: | Process name: {rank} | Exit code: {code} | "


def test_error_of_a_killed_rank_advises_a_smaller_batch_or_model() -> None:
    ending = judged(UnexplainedExit.PEER_LOST, None, launcher_says=told_by_horovodrun(1, 137))
    assert ending.reason is EndReason.RANK_FAILED
    assert (ending.error or "").startswith("rank 1 was killed (SIGKILL)")
    assert (ending.error or "").endswith("try a batch of 32 per GPU")
    single = judged(None, launcher_says=told_by_horovodrun(0, 137), per_gpu_batch=1).error or ""
    assert single.endswith("try a smaller model")


@pytest.mark.parametrize(
    ("rank", "code"), [(1, 1), (1, 1370), (0, 137)], ids=["it failed", "another code", "it said why it left"]
)
def test_memory_advice_is_only_for_a_killed_rank_without_a_record(rank: int, code: int) -> None:
    ending = judged(UnexplainedExit.PEER_LOST, None, launcher_says=told_by_horovodrun(rank, code))
    assert "died without a word" in (ending.error or "")


def test_expired_lease_is_the_end_reason_unless_there_is_a_fault_or_a_stop() -> None:
    ending = judged(EndReason.LEASE_EXPIRED, UnexplainedExit.PEER_LOST, EndReason.LEASE_EXPIRED)
    assert ending == Ending(EndReason.LEASE_EXPIRED, "rank 0, 2 left: nobody extended its lease")
    assert judged(EndReason.LEASE_EXPIRED, EndReason.BAD_DATA).reason is EndReason.BAD_DATA
    lost = Ending(EndReason.HOST_LOST, "host hb: the connection broke")
    assert judged(UnexplainedExit.PEER_LOST, EndReason.LEASE_EXPIRED, stopped_for=lost) == lost


@pytest.mark.parametrize(
    ("requests", "end"),
    [
        (StopRequests(cancel_requested=False), None),
        (
            StopRequests(cancel_requested=False, preemption=FOR_JOB_X),
            Ending(EndReason.PREEMPTED, "to make room for job x"),
        ),
        (
            StopRequests(cancel_requested=False, preemption=PreemptionCause.drained("ha")),
            Ending(EndReason.PREEMPTED, "because host ha is drained"),
        ),
        (StopRequests(cancel_requested=False, pause_requested=True, preemption=FOR_JOB_X), Ending(EndReason.PAUSED)),
        (StopRequests(cancel_requested=True, pause_requested=True, preemption=FOR_JOB_X), Ending(EndReason.CANCELLED)),
    ],
)
def test_cancel_wins_over_pause_and_pause_over_preemption(requests: StopRequests, end: Ending | None) -> None:
    assert requested_ending(requests) == end
