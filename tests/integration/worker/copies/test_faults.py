"""A hundred runs whose store fails, each by its seed: nothing that is half in the store is ever taken for whole.

Each run saves checkpoints of several files while its line to a real S3 server refuses, cuts and breaks off, and while
its copier is killed and started again. Then its host is lost, and the next attempt starts from the store, over the same
line.
"""

import gc
import random
import shutil
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from jobs.copies.manifests import Manifests
from jobs.copies.store import Store
from jobs.db.engine import Sessions
from jobs.runtime.checkpoint_folders import attempt_folder, checkpoint_folder
from jobs.runtime.settings import Settings
from tests.integration.jobs import job_rows
from tests.integration.worker.copies.runs import Run, script_job, started
from tests.s3 import S3Server, s3_server
from tests.store_faults import FaultyLink, faulty
from tests.waiting import slowdown
from worker.copies import copier as copier_module
from worker.copies import fetching

pytestmark = pytest.mark.long("faults")

SEEDS = 100
AT_ONCE = 8
FAILING_SHARES = (0.05, 0.2, 1 / 3)
KEPT_ON_DISK = 2
# The driver tries nothing again, so that every fault reaches Hora.
HASTY = {"config_kwargs": {"connect_timeout": 2, "read_timeout": 10, "retries": {"max_attempts": 1}}}


@pytest.fixture(scope="module")
def server(session_folder: Path) -> Iterator[S3Server]:
    with s3_server(session_folder / "s3-of-faults") as server:
        yield server


def files_of(step: int, seed: int) -> dict[str, bytes]:
    """The files of a checkpoint: nobody else has any of their contents."""
    luck = random.Random(f"{seed} {step}")  # noqa: S311 - no secret
    sizes = {"small": 100, "deep/er/middle": luck.randrange(1, 200_000), "empty": 0}
    return {name: luck.randbytes(size) for name, size in sizes.items()}


class Line:
    """A line to the store that fails, and one that does not."""

    def __init__(self, server: S3Server, link: FaultyLink) -> None:
        self.link = link
        self.direct = Store(f"{server.url}/faults", server.options)
        self.faulty = Store(f"{server.url}/faults", server.options_at(link.endpoint) | HASTY)
        self.faulty._files.retries = 1


class Ordeal:
    """One run on a host of its own."""

    def __init__(
        self, seed: int, sessions: Sessions, line: Line, host: Callable[[str], Settings], *, turn_s: float
    ) -> None:
        self.seed, self.link, self.direct, self.turn_s = seed, line.link, line.direct, turn_s
        self.luck = random.Random(seed)  # noqa: S311 - no secret
        self.failing_share = self.luck.choice(FAILING_SHARES)
        self.here, self.elsewhere = host(f"h{seed}"), host(f"g{seed}")
        for settings in (self.here, self.elsewhere):
            job_rows.a_host(sessions, settings.host)
        self.run: Run = started(sessions, line.faulty, self.here, script_job(sessions), resumed_step=0)
        self.saved: list[int] = []

    def go_through(self) -> int:
        """Run it all. Returns how many checkpoints were whole in the end."""
        copier = self.run.copier()
        for step in range(1, self.luck.randrange(3, 6)):
            self._save(step)
            for _ in range(self.luck.randrange(1, 25)):
                self._change_line()
                copier.once()
                time.sleep(self.turn_s)  # the job goes on whatever the copier does
            if self.luck.random() < 0.2:
                copier.close()
                copier = self.run.copier()
        copier.close()
        self.link.normal()
        self.run.end()
        self.run.lose_host()
        whole = self._whole_in_store()
        self._start_elsewhere(whole)
        return len(whole)

    def _save(self, step: int) -> None:
        self.run.save_script(step, files_of(step, self.seed))
        self.saved.append(step)
        for old in self.saved[:-KEPT_ON_DISK]:  # as the rank of a script does
            shutil.rmtree(self._folder(old), ignore_errors=True)

    def _folder(self, step: int) -> Path:
        return checkpoint_folder(attempt_folder(self.run.paths.checkpoints, 1), step)

    def _change_line(self) -> None:
        match self.luck.randrange(30):
            case 0:
                self.link.cut()
            case 1:
                self.link.full()
            case 2 | 3 | 4:
                self.link.mend()
                self.link.fail(self.failing_share, self.seed)

    def _whole_in_store(self) -> set[int]:
        """The steps of all checkpoints that have a manifest. Every one must be what was saved."""
        found = Manifests(self.direct, self.run.job_id)
        for attempt, step in found.checkpoints():
            manifest = found.checkpoint(attempt, step)
            content = {file.path: self.direct.read(file.key) for file in manifest.files}
            assert content == files_of(step, self.seed), f"seed {self.seed}: step {step} is half in the store"
        return {step for _, step in found.checkpoints()}

    def _start_elsewhere(self, whole: set[int]) -> None:
        later = self.run.next(self.elsewhere, resumed_step=None)
        self.link.fail(self.failing_share, self.seed + 1)
        fetched = later.fetch()
        self.link.normal()
        assert (0 if fetched is None else fetched.manifest.step) == max(whole, default=0), f"seed {self.seed}"
        if fetched is not None:
            step = fetched.manifest.step
            folder = checkpoint_folder(attempt_folder(later.paths.checkpoints, 1), step)
            names = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
            assert {name: (folder / name).read_bytes() for name in names} == files_of(step, self.seed)


def test_nothing_half_is_taken_for_whole(
    sessions: Sessions,
    server: S3Server,
    host: Callable[[str], Settings],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(copier_module, "_LONGEST_REST_S", 0.2)  # it tries again soon
    monkeypatch.setattr(copier_module, "_FIRST_REST_S", 0.05)
    monkeypatch.setattr(fetching, "_RETRY_S", 0.05)
    turn_s = 0.1 * min(slowdown(), 5)  # of the machine: among these threads, each would seem slow
    with ExitStack() as opened:
        lines = [Line(server, opened.enter_context(faulty(server.endpoint))) for _ in range(AT_ONCE)]

        def go_through(number: int) -> list[int]:
            seeds = range(number, SEEDS, AT_ONCE)
            return [Ordeal(seed, sessions, lines[number], host, turn_s=turn_s).go_through() for seed in seeds]

        pool = opened.enter_context(ThreadPoolExecutor(AT_ONCE))
        whole = [count for counts in pool.map(go_through, range(AT_ONCE)) for count in counts]
        seen = sum((line.link.seen for line in lines), Counter())
    gc.collect()  # so that a connection that nobody closed fails this test, and not the next one
    assert sum(count > 0 for count in whole) > SEEDS / 2, whole
    assert all(seen[fault] for fault in ("refused", "half read", "answer cut", "full")), seen
