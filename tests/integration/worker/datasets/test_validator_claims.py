"""Which host and which thread validates a version, and what becomes of it when one of them fails."""

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import numpy as np
import psutil
import pytest
from sqlalchemy import func, select, update

from jobs.data import validation, versions
from jobs.db.tables import DatasetVersion
from jobs.scheduling.registration import register
from tests.archives import chips, write_files, zip_of
from tests.full_disks import fill_up, small_disk, use_up_files
from tests.integration.jobs.writing import change
from tests.integration.worker.datasets.dataset_rows import Desk
from tests.waiting import until
from worker.datasets.validator import Validator, validators_of


def claims_are_over(desk: Desk) -> None:
    """Let the time of all claims and rests pass."""
    change(desk.sessions, update(DatasetVersion).values(claimed_until=func.now() - timedelta(seconds=1)))


def test_a_host_without_the_files_leaves_the_version_to_other_hosts(desk: Desk) -> None:
    with desk.sessions.begin() as session:
        for host in ("ha", "hb"):
            register(session, host, info={}, slots=[], address=None)
    row_id = desk.register(source="elsewhere")
    assert desk.validate()
    assert not desk.validate()
    row = desk.row(row_id)
    assert (row.status, row.unseen_by, row.attempts) == ("validating", ["ha"], 0)
    other_validator = desk.another(host_name="hb")
    assert other_validator.validate_one()
    assert not other_validator.validate_one()
    row = desk.row(row_id)
    assert row.status == "invalid"
    assert "no host has 'elsewhere' below its data roots" in (row.error or "")


def test_a_version_is_invalid_after_three_attempts_without_a_result(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_files(desk.data / "d", chips(2))
    row_id = desk.register(source="d")
    monkeypatch.setattr(sys, "executable", "/bin/false")
    for attempt in (1, 2):
        assert desk.validate()
        row = desk.row(row_id)
        assert (row.status, row.attempts) == ("validating", attempt)
        assert not desk.validate(), "it rests"
        claims_are_over(desk)
    assert desk.validate()
    row = desk.row(row_id)
    assert (row.status, row.error) == (
        "invalid", "3 tries to validate it ended without a result: see the logs of the workers",
    )  # fmt: skip


def test_a_host_without_descriptors_makes_no_version_invalid(desk: Desk) -> None:
    write_files(desk.data / "d", chips(2))
    row_id = desk.register(source="d")
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    with desk.sessions() as session:  # the pool keeps this connection
        session.execute(select(1))
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (3, limits[1]))
        assert desk.validate()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    row = desk.row(row_id)
    assert (row.status, row.attempts) == ("validating", 0)
    assert row.error == "it waits: host ha could not validate it (Too many open files)"
    assert not desk.validate(), "the host rests"
    assert desk.another().validate_one()
    assert desk.row(row_id).status == "ready"


def test_a_lost_claim_writes_nothing(desk: Desk) -> None:
    row_id = desk.register(source="d")
    with desk.sessions.begin() as session:
        first = validation.claim(session, "ha", for_s=-1)
        second = validation.claim(session, "hb", for_s=60)
        assert first is not None
        assert second is not None
        assert not validation.settle(session, first, error="too late")
        assert not validation.renew(session, first, for_s=60)
        assert not validation.release(session, first)
        assert validation.settle(session, second, error="because")
    assert desk.row(row_id).error == "because"


def test_a_version_whose_workers_die_is_given_up_late_and_by_none_that_stops(desk: Desk) -> None:
    row_id = desk.register(source="d")
    with desk.sessions.begin() as session:
        claims = [validation.claim(session, "ha", for_s=-1) for _ in range(10)]
        assert claims[-1] is not None
        assert validation.release(session, claims[-1])
        assert validation.refuse_hopeless(session) == []
        assert validation.claim(session, "ha", for_s=-1)
        assert validation.refuse_hopeless(session) == ["chips@1"]
    assert (desk.row(row_id).error or "").startswith("10 tries to validate it ended without a result")


def test_a_claim_from_before_the_clock_was_set_back_keeps_nobody_away(desk: Desk) -> None:
    desk.register(source="d")
    with desk.sessions.begin() as session:
        assert validation.claim(session, "ha", for_s=60)
        assert validation.claim(session, "hb", for_s=60) is None
        session.execute(update(DatasetVersion).values(claimed_until=func.now() + timedelta(hours=2)))
        session.expire_all()
        assert session.scalar(select(validation.some_are_open()))
        assert validation.claim(session, "hb", for_s=60)


def test_a_worker_that_stops_leaves_the_version_to_others(desk: Desk, silent_server: str) -> None:
    row_id = desk.register(source=f"{silent_server}/a.npz")
    validator = desk.another(data_roots=silent_server)
    validator.start()
    until(lambda: desk.row(row_id).claimed_by, what="the claim")
    validator.stop()
    validator.join(120)
    assert not validator.is_alive()
    row = desk.row(row_id)
    assert (row.status, row.claimed_by, row.attempts) == ("validating", None, 0)


_WORKER = """
import json, sys
from jobs.db.engine import engine_for, sessions_for
from jobs.runtime.settings import Settings
from worker.datasets.validator import Validator
settings = Settings(**json.loads(sys.argv[1]))
Validator(sessions_for(engine_for(settings.database_url)), settings).validate_one()
"""


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def test_a_killed_worker_ends_its_inspector_and_another_worker_takes_over(desk: Desk, silent_server: str) -> None:
    worker_settings = desk.settings.model_dump(mode="json", include={"home", "database_url"}) | {"host_name": "hb"}
    worker_settings["data_roots"] = silent_server
    row_id = desk.register(source=f"{silent_server}/a.npz")
    worker = subprocess.Popen([sys.executable, "-c", _WORKER, json.dumps(worker_settings)])
    try:
        until(lambda: desk.row(row_id).claimed_by == "hb", what="the claim")
        (inspector,) = until(lambda: children_of(worker.pid), what="the process that looks")
    finally:
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait(120)
    until(lambda: not Path(f"/proc/{inspector}").exists(), what="the end of that process")
    mine = desk.another()
    assert not mine.validate_one()  # the claim of the dead worker still holds for a while
    change(desk.sessions, update(DatasetVersion).values(source="d"))
    claims_are_over(desk)
    write_files(desk.data / "d", chips(2))
    assert mine.validate_one()
    row = desk.row(row_id)
    assert (row.status, row.attempts) == ("ready", 2)


def test_a_dataset_waits_for_space_says_so_once_and_is_ready_later(desk: Desk) -> None:
    with small_disk(desk.settings.datasets, size_bytes=8 * 2**20) as disk:
        row_id = desk.upload(zip_of(chips(5)))
        fill = fill_up(disk, but_bytes=20_000)
        assert not desk.another().validate_one()  # below the floor it does not try
        row = desk.row(row_id)
        assert (row.status, row.attempts) == ("validating", 0)
        assert row.error == "it waits until host ha has space for it: datasets has 0.0 MB free, less than 0.4 MB"
        assert not desk.another().validate_one()
        assert desk.row(row_id).revision == row.revision  # it says so once
        names = use_up_files(disk)  # now unpacking fails in the middle
        desk.another(min_free_gb=0.0, min_free_files=0).validate_one()
        row = desk.row(row_id)
        assert (row.status, row.attempts) == ("validating", 0)
        assert row.error == "it waits until host ha has space for it"
        shutil.rmtree(names)
        fill.unlink()
        assert desk.another().validate_one()
        row = desk.row(row_id)
        assert (row.status, row.error) == ("ready", None)


@pytest.fixture
def threads(desk: Desk, silent_server: str) -> Iterator[list[Validator]]:
    """All validators of a host, running."""
    roots = f"{desk.settings.data_roots}:{silent_server}"
    threads = validators_of(desk.sessions, desk.settings.model_copy(update={"data_roots": roots}))
    for thread in threads:
        thread.start()
    yield threads
    for thread in threads:
        thread.stop()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive()


def inspectors() -> list[psutil.Process]:
    """The processes that inspect data for the validators of this process."""
    children = psutil.Process().children()
    return [child for child in children if "trainer.inspection" in child.cmdline()]


@pytest.mark.usefixtures("threads")
def test_an_inspection_that_stands_still_holds_no_other(desk: Desk, silent_server: str) -> None:
    stuck_id = desk.register(source=f"{silent_server}/a.npz")
    (stuck,) = until(inspectors, what="the inspection")
    stuck.suspend()
    write_files(desk.data / "d", chips(2))
    other_ids = [desk.register(source="d") for _ in range(2)]
    until(lambda: {desk.row(row_id).status for row_id in other_ids} == {"ready"}, what="the other versions")
    assert desk.row(stuck_id).status == "validating"
    assert stuck.status() == psutil.STATUS_STOPPED


def test_data_that_is_too_large_for_the_other_threads_is_left_to_the_first(
    desk: Desk, silent_server: str, threads: list[Validator]
) -> None:
    desk.register(source=f"{silent_server}/a.npz")
    (stuck,) = until(inspectors, what="the inspection")
    with zipfile.ZipFile(desk.data / "large.npz", "w") as archive, archive.open("x.npy", "w") as member:
        np.lib.format.write_array_header_1_0(member, {"descr": "|u1", "fortran_order": False, "shape": (3 * 10**9,)})
    large_id = desk.register(source="large.npz")

    def is_left() -> bool:
        row = desk.row(large_id)
        is_free = (row.status, row.claimed_by, row.attempts) == ("validating", None, 0)
        return threads[1].large_ids == {large_id} and is_free

    until(is_left, what="the release by another thread")
    with desk.sessions.begin() as session:
        versions.remove(session, versions.get_version(session, "chips", 1, to_change=True))
    stuck.kill()
    until(lambda: desk.row(large_id).status == "invalid", what="the end of the validation by the first thread")
    assert "EOF: reading array data" in (desk.row(large_id).error or "")
