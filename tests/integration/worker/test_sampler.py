"""Samples of every leased slot and of the host: read from the real system, and stored."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import psycopg
import pynvml
import pytest
from sqlalchemy import select, text, update
from sqlalchemy.exc import OperationalError

from jobs.db.engine import Sessions
from jobs.db.tables import Attempt, HostSample, Sample, Slot
from jobs.lifecycle import leases
from jobs.lifecycle.store import Lease, touch
from jobs.model.records import StepEnded, rank_records_name
from jobs.model.states import EndReason
from jobs.runtime.processes import mark_of
from jobs.scheduling import registration
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.attempt.paths import AttemptPaths, paths_of
from worker.attempt.processes import pids_with_mark
from worker.host.gpus import find_gpus
from worker.sampling import sampler as sampler_module
from worker.sampling.sampler import Sampler

MakeSampler = Callable[..., Sampler]


@pytest.fixture
def make_sampler(sessions: Sessions, tmp_path: Path) -> MakeSampler:
    """Makes the sampler of host `ha`, with the GPUs that are there."""

    def make_sampler(*, host: str = "ha", report_period_s: float = 0.0) -> Sampler:
        return Sampler(
            sessions, host=host, gpus=find_gpus(), runs_dir=tmp_path, period_s=1.0, report_period_s=report_period_s
        )

    return make_sampler


@pytest.fixture
def sampler(make_sampler: MakeSampler) -> Sampler:
    return make_sampler()


def stored_samples(sessions: Sessions) -> list[Sample]:
    with sessions() as session:
        return list(session.scalars(select(Sample).order_by(Sample.at, Sample.rank)))


def stored_host_samples(sessions: Sessions) -> list[HostSample]:
    with sessions() as session:
        return list(session.scalars(select(HostSample).order_by(HostSample.at)))


def write_step(paths: AttemptPaths, rank: int, step: int, epoch: int) -> None:
    paths.create()
    record = StepEnded(
        at=0, step=step, epoch=epoch, step_time_s=1, data_wait_s=0, allreduce_s=0, samples_per_s=1, metrics={}
    )
    with (paths.records / rank_records_name(rank)).open("a") as file:
        file.write(record.model_dump_json() + "\n")


def start_ranks(start: Start, lease: Lease) -> None:
    mark = mark_of(lease.job_id, lease.number)
    for rank in range(2):
        start("exec sleep 60", HORA_ATTEMPT=mark, HOROVOD_RANK=str(rank))
    until(lambda: len(pids_with_mark(mark)) == 2)


def test_each_leased_slot_gets_a_row_with_the_newest_step(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = job_rows.a_running_attempt(sessions)
    job_rows.a_host(sessions, slots=4)  # two more, free
    start_ranks(start, lease)
    assert sampler.sample() == 2
    with sessions.begin() as session:
        touch(session, lease.job_id, progress={"step": 41, "epoch": 3})
    assert sampler.sample() == 2
    rows = stored_samples(sessions)
    assert [(row.job_id, row.attempt, row.rank, row.host, row.slot, row.step, row.epoch) for row in rows] == [
        (lease.job_id, 1, 0, "ha", 0, None, None),
        (lease.job_id, 1, 1, "ha", 1, None, None),
        (lease.job_id, 1, 0, "ha", 0, 41, 3),
        (lease.job_id, 1, 1, "ha", 1, 41, 3),
    ]
    assert all(row.memory_bytes for row in rows)
    assert [row.cpu_percent is None for row in rows] == [True, True, False, False]
    assert {row.gpu_percent for row in rows} == {None}


def test_a_slot_whose_rank_is_not_up_has_a_row_without_figures(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_claimed_attempt(sessions)
    assert sampler.sample() == 2
    assert {(row.cpu_percent, row.memory_bytes) for row in stored_samples(sessions)} == {(None, None)}


def test_nothing_is_stored_for_an_ended_attempt(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = job_rows.a_running_attempt(sessions)
    start_ranks(start, lease)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
    assert sampler.sample() == 0
    assert stored_samples(sessions) == []


def test_nothing_is_stored_for_the_slots_of_another_host(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_host(sessions, "hb")
    job_rows.an_attempt(sessions, job_rows.a_job(sessions), host="hb")
    assert sampler.sample() == 0


def test_the_step_in_the_file_of_a_rank_takes_precedence_over_stored_progress(
    sessions: Sessions, sampler: Sampler, tmp_path: Path
) -> None:
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        touch(session, lease.job_id, progress={"step": 40, "epoch": 2})
    sampler.sample()
    paths = paths_of(tmp_path, lease.job_id, lease.number)
    write_step(paths, 0, 57, 3)
    sampler.sample()
    write_step(paths, 0, 58, 3)
    sampler.sample()
    assert [(row.rank, row.step, row.epoch) for row in stored_samples(sessions)] == [
        (0, 40, 2), (1, 40, 2),
        (0, 57, 3), (1, 40, 2),
        (0, 58, 3), (1, 40, 2),
    ]  # fmt: skip


def test_a_member_host_reads_the_step_from_its_own_file(
    sessions: Sessions, make_sampler: MakeSampler, tmp_path: Path
) -> None:
    job_rows.a_host(sessions, "hb", slots=1)
    lease = job_rows.a_running_attempt(sessions)
    with sessions.begin() as session:
        moved = {"host": "hb", "index": 0}
        session.execute(update(Slot).where(Slot.host == "hb").values(attempt_id=lease.attempt_id, rank=2))
    sampler = make_sampler(host=moved["host"])
    sampler.sample()
    write_step(paths_of(tmp_path, lease.job_id, lease.number), 2, 1, 1)  # the lead's copy, if the folder is shared
    write_step(paths_of(tmp_path, lease.job_id, lease.number).of_member("hb"), 2, 9, 1)
    sampler.sample()
    assert [(row.host, row.rank, row.step) for row in stored_samples(sessions)] == [("hb", 2, None), ("hb", 2, 9)]


def test_gpu_readings_are_stored_for_leased_and_free_slots(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("wmgp")
    register_gpus(sessions, 4)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=3), slots=(0, 1, 2))
    sampler = make_sampler()
    assert sampler.sample() == 3
    assert [
        (row.job_id, row.gpu_percent, row.gpu_memory_bytes, row.gpu_power_w, row.gpu_throttle, row.gpu_processes)
        for row in stored_samples(sessions)
    ] == [
        (lease.job_id, 97.0, 7 << 30, 412.5, 4, 0),
        (lease.job_id, None, 7 << 30, 412.5, 4, 0),
        (lease.job_id, None, None, None, None, None),
    ]
    readings = [slot.reading for slot in job_rows.the_slots(sessions)]
    assert [(told["percent"], told["processes"], told["is_lost"]) for told in readings if told] == [
        (97.0, 0, False), (None, 0, False), (None, None, False), (97.0, 1, False),
    ]  # fmt: skip
    at = {told["at"] for told in readings if told}
    assert at == {row.at.isoformat() for row in stored_host_samples(sessions)}


def register_gpus(sessions: Sessions, cards: int) -> None:
    """Host `ha` with the stub's cards."""
    job_rows.a_host(sessions, slots=cards, kind="gpu")
    with sessions.begin() as session:
        for index in range(cards):
            session.execute(update(Slot).where(Slot.index == index).values(uuid=f"GPU-{index:02}"))


def test_readings_are_stored_once_a_period(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("w")
    register_gpus(sessions, 1)
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    first = job_rows.the_slots(sessions)[0].reading
    sampler.sample()
    assert job_rows.the_slots(sessions)[0].reading == first
    assert first is not None
    assert len(stored_host_samples(sessions)) == 2


def why_unhealthy(sessions: Sessions) -> list[str | None]:
    return [slot.unhealthy for slot in job_rows.the_slots(sessions)]


def in_use_by_others(sessions: Sessions) -> list[bool]:
    return [slot.in_use_by_others for slot in job_rows.the_slots(sessions)]


def test_a_lost_card_is_unhealthy_at_once_until_it_is_back(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    cards("www")
    register_gpus(sessions, 3)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[1])
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    cards("wll")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus", "it is off the bus"]
    assert job_rows.holders(sessions) == [None, lease.attempt_id, None]  # the lease stays until the attempt ends
    assert [slot.reading["is_lost"] for slot in job_rows.the_slots(sessions) if slot.reading] == [False, True, True]
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.RANK_FAILED, backoff_s=100)
        leases.release(session, lease.attempt_id)
    sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus", "it is off the bus"]
    cards("www")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None, None]
    assert [slot.retired_at for slot in job_rows.the_slots(sessions)] == [None, None, None]


def test_a_change_is_reported_again_if_its_row_was_locked(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("ww")
    register_gpus(sessions, 2)
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    cards("ll")
    with sessions.begin() as session:
        session.execute(select(Slot.index).where(Slot.index == 0).with_for_update()).all()
        sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus"]
    sampler.sample()
    assert why_unhealthy(sessions) == ["it is off the bus", "it is off the bus"]


def test_a_slot_that_its_host_no_longer_offers_stays_retired(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("ww")
    register_gpus(sessions, 2)
    with sessions.begin() as session:
        registration.register(session, "ha", {}, [SlotInfo(0, "gpu", "gpu", "GPU-00")])
    make_sampler().sample()
    assert [slot.retired_at is None for slot in job_rows.the_slots(sessions)] == [True, False]
    assert [slot.reading is None for slot in job_rows.the_slots(sessions)] == [False, True]


def test_a_card_with_an_xid_error_is_unhealthy_until_the_worker_restarts(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cards("www")
    register_gpus(sessions, 3)
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    monkeypatch.setenv("NVML_STUB_XIDS", "0:13 2:31 1:48")  # the first two are errors of programs
    sampler.sample()
    text_48 = "XID 48: an ECC error in its memory that cannot be corrected (until the worker restarts)"
    assert why_unhealthy(sessions) == [None, text_48, None]
    monkeypatch.setenv("NVML_STUB_XIDS", "0:13 2:31 1:48 2:901")
    for _ in range(3):
        sampler.sample()
    assert why_unhealthy(sessions) == [None, text_48, "XID 901 (until the worker restarts)"]
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    cards("wlw")
    sampler.sample()
    assert why_unhealthy(sessions)[1] == "it is off the bus"
    cards("www")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None, "XID 901 (until the worker restarts)"]
    monkeypatch.setenv("NVML_STUB_XIDS", "")
    make_sampler().sample()
    assert why_unhealthy(sessions) == [None, None, None]


def test_a_card_that_is_back_reports_xid_errors_again(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    registered = []
    register = pynvml.nvmlDeviceRegisterEvents
    monkeypatch.setattr(
        pynvml, "nvmlDeviceRegisterEvents", lambda *arguments: registered.append(1) or register(*arguments)
    )
    cards("w")
    register_gpus(sessions, 1)
    sampler = make_sampler()
    for letters in "wwlwww":
        cards(letters)
        sampler.sample()
    assert len(registered) == 2


def test_a_card_whose_memory_has_errors_is_unhealthy_while_it_reports_them(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None], caplog: pytest.LogCaptureFixture
) -> None:
    cards("werfu")
    register_gpus(sessions, 5)
    sampler = make_sampler()
    for _ in range(3):
        sampler.sample()
    assert why_unhealthy(sessions) == [
        None,
        "3 ECC errors since its driver started, which cannot be corrected",
        "defective rows of its memory are replaced when the GPU is reset",
        "defective rows of its memory cannot be replaced",
        None,
    ]
    assert len([message for message in caplog.messages if "3 ECC errors" in message]) == 1
    cards("wwwwu")
    sampler.sample()
    assert why_unhealthy(sessions) == [None] * 5


def test_an_old_driver_reports_no_errors(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("wp", driver="old")
    register_gpus(sessions, 2)
    sampler = make_sampler()
    sampler.sample()
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None]
    assert in_use_by_others(sessions) == [False, True]


def test_a_free_card_on_which_a_process_computes_is_in_use_by_others_until_it_is_gone(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("wwwu")
    register_gpus(sessions, 4)
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[2])
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    cards("wppu")
    sampler.sample()
    assert in_use_by_others(sessions) == [False, True, False, False]  # the process on card 2 may be its rank
    cards("wwpu")
    sampler.sample()
    assert in_use_by_others(sessions) == [False, False, False, False]
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.RANK_FAILED, backoff_s=100)
    sampler.sample()
    assert in_use_by_others(sessions) == [False] * 4  # the ended attempt still holds its slot
    with sessions.begin() as session:
        leases.release(session, lease.attempt_id)
    sampler.sample()
    assert in_use_by_others(sessions) == [False] * 4  # the card may have been read before the slot was released
    sampler.sample()
    assert in_use_by_others(sessions) == [False, False, True, False]


def test_a_card_that_was_leased_after_it_was_read_is_not_in_use_by_others(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    cards("w")
    register_gpus(sessions, 1)
    sampler = make_sampler()
    sampler.sample()
    cards("p")
    job_id = job_rows.a_job(sessions, gpus=1)
    leased = sampler_module.leased_slots
    monkeypatch.setattr(
        sampler_module,
        "leased_slots",
        lambda *arguments: [job_rows.an_attempt(sessions, job_id, slots=[0]), leased(*arguments)][1],
    )
    sampler.sample()
    assert in_use_by_others(sessions) == [False]


def test_the_reading_of_a_locked_slot_is_stored_later(
    sessions: Sessions, make_sampler: MakeSampler, cards: Callable[..., None]
) -> None:
    cards("ww")
    register_gpus(sessions, 2)
    sampler = make_sampler()
    with sessions.begin() as session:
        session.execute(select(Slot.index).where(Slot.index == 0).with_for_update()).all()
        sampler.sample()
    assert [slot.reading is None for slot in job_rows.the_slots(sessions)] == [True, False]
    sampler.sample()
    assert [slot.reading is None for slot in job_rows.the_slots(sessions)] == [False, False]


def test_every_sample_stores_a_row_of_the_host(sessions: Sessions, sampler: Sampler) -> None:
    sampler.sample()
    [first] = stored_host_samples(sessions)
    assert (first.host, first.cpu_percent, first.network_sent_bytes_per_s) == ("ha", None, None)
    assert first.memory_bytes

    def has_share() -> bool:  # two samples within one 10 ms tick of the system give no CPU share
        sampler.sample()
        return stored_host_samples(sessions)[-1].cpu_percent is not None

    until(has_share)
    assert 0 <= stored_host_samples(sessions)[-1].cpu_percent <= 100


def test_readings_wait_for_an_unreachable_database_and_keep_their_time(
    sessions: Sessions, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    stays = job_rows.a_running_attempt(sessions)
    sampler.sample()
    before = datetime.now(UTC)
    with monkeypatch.context() as away:
        away.setattr(sampler_module, "leased_slots", is_away)
        with pytest.raises(OperationalError):
            sampler.sample()
        for _ in range(3):
            assert sampler.sample() == 0  # the database is not tried for a while
    after = datetime.now(UTC)
    sampler._away_until = 0.0
    assert sampler.sample() == 2 * 5
    rows = stored_samples(sessions)
    assert {row.job_id for row in rows} == {stays.job_id}
    assert len({row.at for row in rows}) == 6
    assert len([row for row in rows if before < row.at < after]) == 2 * 4
    assert len(stored_host_samples(sessions)) == 6
    assert sampler.sample() == 2


def is_away(*_: object) -> None:
    raise OperationalError("SELECT", None, Exception("away"))


def test_waiting_readings_are_not_stored_for_an_ended_attempt(
    sessions: Sessions, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = job_rows.a_running_attempt(sessions)
    sampler.sample()
    with monkeypatch.context() as away:
        away.setattr(sampler_module, "leased_slots", is_away)
        with pytest.raises(OperationalError):
            sampler.sample()
    with sessions.begin() as session:
        leases.end(session, over, EndReason.LEASE_EXPIRED)
        leases.release(session, over.attempt_id)
    job_rows.an_attempt(sessions, job_rows.a_job(sessions))
    sampler._away_until = 0.0
    assert sampler.sample() == 2  # only samples of the next attempt, none from before
    assert len([row for row in stored_samples(sessions) if row.job_id == over.job_id]) == 2
    assert len(stored_host_samples(sessions)) == 3


def test_a_reading_that_cannot_be_stored_does_not_stop_later_ones(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_running_attempt(sessions)
    sampler.sample()
    sampler._away_until = float("inf")
    sampler.sample()
    reading, leased = sampler._unstored[0]
    sampler._unstored[0] = replace(reading, host=reading.host._replace(memory_bytes=2**70)), leased
    sampler._away_until = 0.0
    with pytest.raises(psycopg.DataError):
        sampler.sample()
    assert sampler.sample() == 2


def test_only_the_newest_readings_are_kept(sessions: Sessions, sampler: Sampler) -> None:
    job_rows.a_running_attempt(sessions)
    sampler.sample()
    sampler._away_until = float("inf")
    for _ in range(70):
        sampler.sample()
    sampler._away_until = 0.0
    assert sampler.sample() == 2 * 61


def test_an_attempt_cannot_end_while_its_samples_are_stored(
    sessions: Sessions, sampler: Sampler, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = job_rows.a_running_attempt(sessions)
    store = sampler_module.store_samples

    def ends_meanwhile(*arguments: object) -> None:
        ends = update(Attempt).where(Attempt.id == lease.attempt_id).values(ended_at=datetime.now(UTC))
        with sessions() as other:
            other.execute(text("SET LOCAL lock_timeout = '50ms'"))
            with pytest.raises(OperationalError, match="lock timeout"):
                other.execute(ends)
        store(*arguments)

    monkeypatch.setattr(sampler_module, "store_samples", ends_meanwhile)
    assert sampler.sample() == 2
