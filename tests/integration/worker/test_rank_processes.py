"""The ranks of this host and what they use, from the processes that are really there."""

import os
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.integration.worker.conftest import Start
from tests.waiting import until
from worker.attempt.processes import pids_with_mark
from worker.sampling import rank_processes
from worker.sampling.rank_processes import RankProcesses

FOR_A_WHILE = "import time; [None for _ in iter(lambda: time.process_time() > 0.5, True)]"
BUSY = [sys.executable, "-S", "-c", "while True: pass"]


def cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def memory_of(*pids: int) -> int:
    """Resident memory, in bytes. It grows after `exec` too, until the program has loaded what it needs."""
    return sum(psutil.Process(pid).memory_info().rss for pid in pids)


def test_a_busy_rank_uses_more_cpu_than_an_idle_one(mark: str, start: Start) -> None:
    busy, idle = start(BUSY, HOROVOD_RANK="0"), start("exec sleep 60", HOROVOD_RANK="1")
    until(lambda: len(pids_with_mark(mark)) == 2)
    until(lambda: psutil.Process(idle.pid).name() == "sleep")
    ranks = RankProcesses()
    first = ranks.read()
    began, used = time.monotonic(), cpu_s(busy.pid)
    assert first[mark, 0].cpu_percent is first[mark, 1].cpu_percent is None  # there is no window yet
    until(lambda: cpu_s(busy.pid) > used + 1)
    second = ranks.read()
    share = 100 * (cpu_s(busy.pid) - used) / (time.monotonic() - began)  # some 100, less on a machine in demand
    assert second[mark, 0].cpu_percent == pytest.approx(share, abs=15)
    assert second[mark, 1].cpu_percent == pytest.approx(0, abs=5)
    until(lambda: ranks.read()[mark, 1].memory_bytes == memory_of(idle.pid), what="the memory of the idle rank")


def test_a_process_that_becomes_a_rank_later_is_read_from_then_on(mark: str, start: Start, tmp_path: Path) -> None:
    """It runs one program after another until then, so that some looks see it in the middle of an exec."""
    restless = tmp_path / "restless"
    restless.write_text(f'#!/bin/sh\n[ -e {tmp_path}/go ] && HOROVOD_RANK=3 exec sleep 60\nexec "$0"\n')
    restless.chmod(0o755)
    start([str(restless)])
    until(lambda: pids_with_mark(mark))
    ranks = [RankProcesses() for _ in range(20)]
    assert not any((mark, 3) in one.read() for one in ranks)
    (tmp_path / "go").touch()
    assert (mark, 3) not in ranks[0].read()  # it is looked for when it is expected, or after a while
    for one in ranks:
        until(lambda one=one: (mark, 3) in one.read({(mark, 3)}))


def test_processes_that_a_rank_starts_are_found_after_a_while(
    mark: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "go")
    start(f"read go <{tmp_path}/go; sleep 60 & exec sleep 60", HOROVOD_RANK="0")
    until(lambda: pids_with_mark(mark))
    ranks = RankProcesses()
    assert (mark, 0) in ranks.read()
    monkeypatch.setattr(rank_processes, "_LOOK_S", float("inf"))
    (tmp_path / "go").write_text("go\n")
    pids = until(lambda: found if len(found := pids_with_mark(mark)) == 2 else [])
    until(lambda: all(psutil.Process(pid).name() == "sleep" for pid in pids))
    until(lambda: ranks.read()[mark, 0].memory_bytes in [memory_of(pid) for pid in pids], what="one process's memory")
    monkeypatch.setattr(rank_processes, "_LOOK_S", 0.0)
    until(lambda: ranks.read()[mark, 0].memory_bytes == memory_of(*pids), what="the memory of both processes")


def test_children_that_live_shorter_than_a_look_count_for_their_rank(
    mark: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "go")
    work = f"{sys.executable} -S -c '{FOR_A_WHILE}'"
    start(f"read go <{tmp_path}/go; {work}; {work}; touch {tmp_path}/done; sleep 60", HOROVOD_RANK="0")
    until(lambda: pids_with_mark(mark))
    ranks = RankProcesses()
    began = time.monotonic()
    assert (mark, 0) in ranks.read()
    monkeypatch.setattr(rank_processes, "_LOOK_S", float("inf"))
    (tmp_path / "go").write_text("go\n")
    until((tmp_path / "done").exists, what="the end of the children")
    percent = ranks.read()[mark, 0].cpu_percent or 0
    assert percent / 100 * (time.monotonic() - began) > 0.9  # each child worked for half a second


def test_what_a_child_used_does_not_count_again_when_it_ends(
    mark: str, start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rank_processes, "_LOOK_S", 0.0)
    os.mkfifo(tmp_path / "end")
    work = f"{sys.executable} -S -c '{FOR_A_WHILE}; open(\"{tmp_path}/end\").read()'"
    shell = start(f"{work}; touch {tmp_path}/done; exec sleep 60", HOROVOD_RANK="0")
    (child,) = until(lambda: [pid for pid in pids_with_mark(mark) if pid != shell.pid])
    ranks = RankProcesses()
    ranks.read()
    until(lambda: cpu_s(child) > 0.4)
    assert (ranks.read()[mark, 0].cpu_percent or 0) > 0
    began = time.monotonic()
    (tmp_path / "end").write_text("")
    until((tmp_path / "done").exists, what="the end of the child")
    percent = ranks.read()[mark, 0].cpu_percent
    assert percent is not None
    assert percent / 100 * (time.monotonic() - began) < 0.3


def test_a_rank_that_ended_and_a_process_that_has_its_pid_are_not_read(mark: str, start: Start) -> None:
    child = start("exec sleep 60", HOROVOD_RANK="0")
    until(lambda: pids_with_mark(mark))
    ranks = RankProcesses()
    ranks.read()
    usage = ranks._ranks[child.pid].usage
    assert usage is not None
    ranks._ranks[child.pid].usage = replace(usage, started=1)  # as if what was seen had ended, and this had begun since
    assert (mark, 0) not in ranks.read()
    assert ranks.read({(mark, 0)})[mark, 0].cpu_percent is None
    child.kill()
    child.wait(10)
    assert (mark, 0) not in ranks.read()


def test_processes_with_an_impossible_rank_are_ignored(mark: str, start: Start) -> None:
    for rank in ("", "x", "-1", "9" * 30, "²", "1"):
        start("exec sleep 60", HOROVOD_RANK=rank)
    until(lambda: len(pids_with_mark(mark)) == 6)
    assert [key for key in RankProcesses().read() if key[0] == mark] == [(mark, 1)]
