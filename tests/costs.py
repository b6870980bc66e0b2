"""What each test file costs: wall time, and the processor time of every process that its tests started.

With `--costs` a run writes `tests/costs.csv` and prints the dearest files. `tests.conftest` loads this plugin. Each
process of a run measures its own files. What a file leaves running, such as the stack of a session, counts for the file
that runs meanwhile.
"""

import csv
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

TABLE = Path(__file__).parent / "costs.csv"
_DEAREST = 20
_LOOK_S = 0.5  # less than most processes live that leave their parent
_MARK = "HORA_TESTS_PROCESS"  # in the environment of every process that a process of tests starts
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_COLLECTION = "(collection)"


# By file: the number of its tests, their wall time and their processor time, in seconds.
_OfFiles = dict[str, tuple[int, float, float]]


def _add(costs: _OfFiles, name: str, tests: int, wall_s: float, cpu_s: float) -> None:
    before = costs.get(name, (0, 0.0, 0.0))
    costs[name] = (before[0] + tests, before[1] + wall_s, before[2] + cpu_s)


@dataclass(frozen=True)
class _Seen:
    """A process at the last look: its parent, its own ticks, and those of the children that it has reaped."""

    parent: int
    own_ticks: int
    reaped_ticks: int

    @property
    def ticks(self) -> int:
        return self.own_ticks + self.reaped_ticks


@dataclass
class Meter:
    """The processor time of this process and all that descend from it, also those whose parents died meanwhile.

    The ticks of a process include those of each child that it reaped. So the living ones are added up. Nobody may have
    reaped a dead one: its parent had died before, or lets the kernel do it, as the template of warm ranks does. Then
    what the nearest living ancestor did not get is added.
    """

    _family: dict[tuple[int, str], _Seen] = field(default_factory=dict)  # by pid and start
    _lost_ticks: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def start(self) -> None:
        """Look from time to time, until the process ends."""
        os.environ[_MARK] = str(os.getpid())
        threading.Thread(target=self._keep_looking, name="costs", daemon=True).start()

    def cpu_s(self) -> float:
        """Processor time until now, in seconds."""
        with self._lock:
            self._look()
            return (sum(seen.ticks for seen in self._family.values()) + self._lost_ticks) / _TICKS_PER_S

    def _keep_looking(self) -> None:
        pause = threading.Event()  # not `time.sleep`: tests replace it for all threads
        while not pause.wait(_LOOK_S):
            with suppress(OSError):  # a test may leave its process no files to open
                self.cpu_s()

    def _look(self) -> None:
        before, everybody = self._family, dict(_processes())
        pids = {os.getpid()} | {pid for pid, start in before if (pid, start) in everybody}
        while born := [
            pid for (pid, _), seen in everybody.items() if pid not in pids and _belongs(pid, seen.parent, pids)
        ]:
            pids.update(born)
        self._family = {key: seen for key, seen in everybody.items() if key[0] in pids}
        self._lost_ticks += _not_reaped(before, self._family)


def _not_reaped(before: Mapping[tuple[int, str], _Seen], now: Mapping[tuple[int, str], _Seen]) -> int:
    """The ticks of those that have died since `before`, as far as no living ancestor has got them."""
    before_by_pid = {pid: seen for (pid, _), seen in before.items()}
    alive = {pid: seen for (pid, _), seen in now.items()}
    expected: Counter[int] = Counter()
    for key, seen in before.items():
        if key not in now:
            ancestor = seen.parent
            while ancestor not in alive and ancestor in before_by_pid:
                ancestor = before_by_pid[ancestor].parent
            expected[ancestor] += seen.ticks
    lost = 0
    for ancestor, ticks in expected.items():
        has_got = 0
        if ancestor in alive and ancestor in before_by_pid:
            has_got = alive[ancestor].reaped_ticks - before_by_pid[ancestor].reaped_ticks
        lost += max(0, ticks - has_got)
    return lost


def _belongs(pid: int, parent: int, family: set[int]) -> bool:
    if parent != 1:
        return parent in family
    try:
        return f"{_MARK}={os.getpid()}".encode() in Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return False


def _processes() -> Iterator[tuple[tuple[int, str], _Seen]]:
    """Every process with what it used, from /proc/PID/stat (proc_pid_stat(5)); zombies too."""
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with suppress(OSError), open(f"/proc/{entry}/stat", "rb") as stat:
                fields = stat.read().rpartition(b")")[2].split()  # the name before may hold anything
                user, system, reaped_user, reaped_system = (int(ticks) for ticks in fields[11:15])
                yield (
                    (int(entry), fields[19].decode()),
                    _Seen(int(fields[1]), own_ticks=user + system, reaped_ticks=reaped_user + reaped_system),
                )


class Costs:
    """Measures the files whose tests run in this process."""

    def __init__(self) -> None:
        self.of_files: _OfFiles = {}
        self._meter = Meter()
        self._meter.start()
        self._mark = (time.monotonic(), 0.0)

    def pytest_collection_finish(self) -> None:
        self._charge(_COLLECTION)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> Iterator[None]:
        answer = yield
        name = item.nodeid.partition("::")[0]
        _add(self.of_files, name, 1, 0.0, 0.0)
        if nextitem is None or nextitem.path != item.path:
            self._charge(name)
        return answer

    def _charge(self, name: str) -> None:
        wall_s, cpu_s = time.monotonic(), self._meter.cpu_s()
        _add(self.of_files, name, 0, wall_s - self._mark[0], cpu_s - self._mark[1])
        self._mark = (wall_s, cpu_s)


class Report:
    """Collects what the processes of a run measured, writes the table, and prints the dearest files."""

    def __init__(self, own: Costs | None) -> None:
        self._own = own  # of a run in one process
        self._parts: list[_OfFiles] = []

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self._parts.append(getattr(node, "workeroutput", {}).get("costs", {}))  # none of a process that crashed

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        costs: _OfFiles = {}
        for part in self._parts if self._own is None else [self._own.of_files]:
            for name, figures in part.items():
                _add(costs, name, *figures)
        lines = sorted(((name, *figures) for name, figures in costs.items()), key=lambda line: line[3], reverse=True)
        with TABLE.open("w", newline="") as file:
            table = csv.writer(file)
            table.writerow(["file", "tests", "wall_s", "cpu_s"])
            table.writerows([name, tests, f"{wall_s:.2f}", f"{cpu_s:.2f}"] for name, tests, wall_s, cpu_s in lines)
        whole_s = sum(cpu_s for *_, cpu_s in lines)
        terminalreporter.section(f"dearest files of {whole_s:.0f} s of processor time")
        for name, tests, wall_s, cpu_s in lines[:_DEAREST]:
            terminalreporter.write_line(f"{cpu_s:8.1f} s {wall_s:8.1f} s wall  {tests:5} tests  {name}")
        terminalreporter.write_line(f"all of them: {TABLE}")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--costs", action="store_true", help="write tests/costs.csv, and print the dearest files")


def pytest_configure(config: pytest.Config) -> None:
    if not config.getoption("--costs"):
        return
    is_part = hasattr(config, "workerinput")  # one of the processes of a run
    costs = None if not is_part and config.getoption("numprocesses", None) else Costs()
    if costs is not None:
        config.pluginmanager.register(costs, "costs")
    if not is_part:
        config.pluginmanager.register(Report(costs), "costs-report")


def pytest_sessionfinish(session: pytest.Session) -> None:
    costs = session.config.pluginmanager.get_plugin("costs")
    if costs is not None and hasattr(session.config, "workeroutput"):
        session.config.workeroutput["costs"] = costs.of_files
