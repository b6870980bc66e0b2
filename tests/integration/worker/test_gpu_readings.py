"""What the sampler reports of the GPUs of a host: their readings, their errors, and who else uses them."""

from collections.abc import Callable

import pynvml
import pytest
from sqlalchemy import select, update

from jobs.db.engine import Sessions
from jobs.db.tables import Slot
from jobs.lifecycle import leases
from jobs.model.states import EndReason
from jobs.scheduling import registration
from jobs.scheduling.registration import SlotInfo
from tests.integration.jobs import job_rows
from tests.integration.worker.samples import MakeSampler, stored_host_samples, stored_samples
from worker.sampling import sampler as sampler_module

Cards = Callable[..., None]


def test_gpu_readings_are_stored_for_leased_slots_and_once_a_period_for_all(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards
) -> None:
    register_gpus(sessions, cards, "wmgp")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=3), slots=(0, 1, 2))
    sampler = make_sampler(report_period_s=3600.0)
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
    assert [(reading["percent"], reading["processes"], reading["is_lost"]) for reading in readings if reading] == [
        (97.0, 0, False), (None, 0, False), (None, None, False), (97.0, 1, False),
    ]  # fmt: skip
    at = {reading["at"] for reading in readings if reading}
    assert at == {row.at.isoformat() for row in stored_host_samples(sessions)}
    for _ in range(3):  # the process of another changed the state of its card
        assert sampler.sample() == 3
    before = [slot.reading for slot in job_rows.the_slots(sessions)]
    assert sampler.sample() == 3
    assert [slot.reading for slot in job_rows.the_slots(sessions)] == before
    assert len(stored_host_samples(sessions)) == 5


def register_gpus(sessions: Sessions, cards: Cards, letters: str, *, driver: str = "new") -> None:
    """Host `ha` with cards of the stub."""
    cards(letters, driver=driver)
    job_rows.a_host(sessions, slots=len(letters), kind="gpu")
    with sessions.begin() as session:
        for index in range(len(letters)):
            session.execute(update(Slot).where(Slot.index == index).values(uuid=f"GPU-{index:02}"))


def why_unhealthy(sessions: Sessions) -> list[str | None]:
    return [slot.unhealthy for slot in job_rows.the_slots(sessions)]


def in_use_by_others(sessions: Sessions) -> list[bool]:
    return [slot.in_use_by_others for slot in job_rows.the_slots(sessions)]


def test_a_lost_card_is_unhealthy_at_once_until_it_is_back(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    register_gpus(sessions, cards, "www")
    lease = job_rows.an_attempt(sessions, job_rows.a_job(sessions, gpus=1), slots=[1])
    sampler = make_sampler(report_period_s=3600.0)
    sampler.sample()
    cards("wll")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, "it is off the bus", "it is off the bus"]
    assert job_rows.holders(sessions) == [None, lease.attempt_id, None]  # the lease stays until the attempt ends
    assert [slot.reading["is_lost"] for slot in job_rows.the_slots(sessions) if slot.reading] == [False, True, True]
    cards("www")
    sampler.sample()
    assert why_unhealthy(sessions) == [None, None, None]
    assert [slot.retired_at for slot in job_rows.the_slots(sessions)] == [None, None, None]


def test_a_change_is_reported_again_if_its_row_was_locked(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards
) -> None:
    register_gpus(sessions, cards, "ww")
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
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards
) -> None:
    register_gpus(sessions, cards, "ww")
    with sessions.begin() as session:
        registration.register(session, "ha", {}, [SlotInfo(0, "gpu", "gpu", "GPU-00")])
    make_sampler().sample()
    assert [slot.retired_at is None for slot in job_rows.the_slots(sessions)] == [True, False]
    assert [slot.reading is None for slot in job_rows.the_slots(sessions)] == [False, True]


def test_a_card_with_an_xid_error_is_unhealthy_until_the_worker_restarts(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_gpus(sessions, cards, "www")
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
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("worker.host.gpus._REOPEN_S", 0.0)
    registered = []
    register = pynvml.nvmlDeviceRegisterEvents
    monkeypatch.setattr(pynvml, "nvmlDeviceRegisterEvents", lambda *args: registered.append(1) or register(*args))
    register_gpus(sessions, cards, "w")
    sampler = make_sampler()
    for letters in "wwlwww":
        cards(letters)
        sampler.sample()
    assert len(registered) == 2


def test_a_card_whose_memory_has_errors_is_unhealthy_while_it_reports_them(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, caplog: pytest.LogCaptureFixture
) -> None:
    register_gpus(sessions, cards, "werfu")
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
    cards("wwwwu", driver="old")  # an old driver reports no errors
    make_sampler().sample()
    assert why_unhealthy(sessions) == [None] * 5


def test_a_free_card_on_which_a_process_computes_is_in_use_by_others_until_it_is_gone(
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards
) -> None:
    register_gpus(sessions, cards, "wwwu")
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
    sessions: Sessions, make_sampler: MakeSampler, cards: Cards, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_gpus(sessions, cards, "w")
    sampler = make_sampler()
    sampler.sample()
    cards("p")
    job_id = job_rows.a_job(sessions, gpus=1)
    leased = sampler_module.leased_slots

    def leased_later(*arguments: object) -> object:
        job_rows.an_attempt(sessions, job_id, slots=[0])
        return leased(*arguments)

    monkeypatch.setattr(sampler_module, "leased_slots", leased_later)
    sampler.sample()
    assert in_use_by_others(sessions) == [False]
