"""What every leased slot does, from the processes that are really there."""

import sys
import time
from pathlib import Path

import psutil
import pytest
from sqlalchemy import select

from jobs import leases
from jobs.database import Sessions
from jobs.processes import mark_of
from jobs.states import EndReason
from jobs.store import Lease, touch
from jobs.tables import Sample
from tests.integration.jobs import given
from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.processes import marked
from worker.sampler import RankProcesses, Sampler

BUSY = [sys.executable, "-S", "-c", "while True: pass"]


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def test_a_busy_rank_is_told_from_an_idle_one(mark: str, start: Start) -> None:
    busy, idle = start(BUSY, HOROVOD_RANK="0"), start("exec sleep 60", HOROVOD_RANK="1")
    until(lambda: len(marked(mark)) == 2)
    ranks = RankProcesses()
    first = ranks.read()
    began, used = time.monotonic(), cpu_s(busy.pid)
    assert first[mark, 0].cpu_percent is first[mark, 1].cpu_percent is None  # there is no window yet
    until(lambda: cpu_s(busy.pid) > used + 0.3)
    second = ranks.read()
    share = 100 * (cpu_s(busy.pid) - used) / (time.monotonic() - began)  # some 100, less on a machine in demand
    assert second[mark, 0].cpu_percent == pytest.approx(share, abs=15)
    assert second[mark, 1].cpu_percent == pytest.approx(0, abs=5)
    assert second[mark, 1].memory_bytes == psutil.Process(idle.pid).memory_info().rss


def test_a_rank_is_all_of_its_processes(mark: str, start: Start) -> None:
    start("sleep 60 & exec sleep 60", HOROVOD_RANK="0")
    ranks = RankProcesses()
    pids = until(lambda: found if len(found := marked(mark)) == 2 else [])
    until(lambda: all(psutil.Process(pid).name() == "sleep" for pid in pids))
    expected = sum(psutil.Process(pid).memory_info().rss for pid in pids)
    assert ranks.read()[mark, 0].memory_bytes == expected


def test_what_is_of_no_rank_is_not_read(mark: str, start: Start) -> None:
    start("exec sleep 60")
    until(lambda: marked(mark))
    assert not any(found == mark for found, _ in RankProcesses().read())


def test_a_process_that_becomes_a_rank_later_is_read_from_then_on(mark: str, start: Start, tmp_path: Path) -> None:
    start(f"while [ ! -e {tmp_path}/go ]; do sleep 0.02; done; HOROVOD_RANK=3 exec sleep 60")
    until(lambda: marked(mark))
    ranks = RankProcesses()
    assert (mark, 3) not in ranks.read()
    (tmp_path / "go").touch()
    until(lambda: (mark, 3) in ranks.read())


def test_a_rank_that_is_caught_becoming_another_program_is_read_later(mark: str, start: Start, tmp_path: Path) -> None:
    restless = tmp_path / "restless"
    restless.write_text('#!/bin/sh\n[ -e "$(dirname "$0")/rest" ] && exec sleep 60\nexec "$0"\n')
    restless.chmod(0o755)
    start([str(restless)], HOROVOD_RANK="0")
    until(lambda: marked(mark))
    ranks = [RankProcesses() for _ in range(20)]
    for one in ranks:
        one.read()
    (tmp_path / "rest").touch()
    for one in ranks:
        until(lambda one=one: (mark, 0) in one.read())


def test_a_rank_that_ended_is_read_no_more(mark: str, start: Start) -> None:
    child = start("exec sleep 60", HOROVOD_RANK="0")
    until(lambda: marked(mark))
    ranks = RankProcesses()
    assert (mark, 0) in ranks.read()
    child.kill()
    child.wait(10)
    assert (mark, 0) not in ranks.read()


@pytest.fixture
def sampler(sessions: Sessions) -> Sampler:
    return Sampler(sessions, host="ha", gpus=[], period_s=1.0)


def stored(sessions: Sessions) -> list[Sample]:
    with sessions() as session:
        return list(session.scalars(select(Sample).order_by(Sample.at, Sample.rank)))


def ranks_of(start: Start, lease: Lease) -> None:
    mark = mark_of(lease.job_id, lease.number)
    for rank in range(2):
        start("exec sleep 60", HORA_ATTEMPT=mark, HOROVOD_RANK=str(rank))
    until(lambda: len(marked(mark)) == 2)


def test_a_row_for_each_leased_slot_with_the_newest_step(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = given.a_running_attempt(sessions)
    given.a_host(sessions, slots=4)  # two more, free
    ranks_of(start, lease)
    assert sampler.sample() == 2
    with sessions.begin() as session:
        touch(session, lease.job_id, progress={"step": 41})
    assert sampler.sample() == 2
    rows = stored(sessions)
    assert [(row.job_id, row.attempt, row.rank, row.host, row.slot, row.step) for row in rows] == [
        (lease.job_id, 1, 0, "ha", 0, None),
        (lease.job_id, 1, 1, "ha", 1, None),
        (lease.job_id, 1, 0, "ha", 0, 41),
        (lease.job_id, 1, 1, "ha", 1, 41),
    ]
    assert all(row.memory_bytes for row in rows)
    assert [row.cpu_percent is None for row in rows] == [True, True, False, False]
    assert {row.gpu_percent for row in rows} == {None}


def test_a_slot_whose_rank_is_not_up_has_a_row_without_figures(sessions: Sessions, sampler: Sampler) -> None:
    given.a_claimed_attempt(sessions)
    assert sampler.sample() == 2
    assert {(row.cpu_percent, row.memory_bytes) for row in stored(sessions)} == {(None, None)}


def test_nothing_is_stored_for_an_ended_attempt(sessions: Sessions, start: Start, sampler: Sampler) -> None:
    lease = given.a_running_attempt(sessions)
    ranks_of(start, lease)
    with sessions.begin() as session:
        leases.end(session, lease, EndReason.CANCELLED)
    assert sampler.sample() == 0
    assert stored(sessions) == []


def test_nothing_is_stored_for_the_slots_of_another_host(sessions: Sessions, sampler: Sampler) -> None:
    given.a_host(sessions, "hb")
    given.an_attempt(sessions, given.a_job(sessions), host="hb")
    assert sampler.sample() == 0
