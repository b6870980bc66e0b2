"""What `hora doctor` finds when it tries a pool: a real Slurm, whose nodes have networks and mounts of their own."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hora.doctor.findings import Finding
from hora.doctor.slurm import judged, slurm_findings
from jobs.runtime.processes import environment, pids
from jobs.runtime.settings import Settings
from tests.namespaces import run
from tests.slurm import PARTITION, Slurm, slurm
from tests.waiting import until
from worker.slurm import check

PYTHON = Path(sys.executable)


@pytest.fixture(scope="module")
def shared_cluster() -> Iterator[Slurm]:
    with slurm(nodes=2, gpus=2, networks=True, patience_s=4) as cluster:
        yield cluster


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """HORA_HOME of the login node."""
    (tmp_path / "home").mkdir()
    return tmp_path / "home"


@pytest.fixture
def cluster(shared_cluster: Slurm, home: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """The cluster of a login node. The test leaves nothing in Slurm and on the disk."""
    variables = {"HORA_HOME": str(home), "HORA_SLURM_PARTITION": PARTITION, "HORA_SLURM_ARGS": "--nodelist=n2"}
    for name, value in {**shared_cluster.environment, **variables}.items():
        monkeypatch.setenv(name, value)
    yield shared_cluster
    assert list(home.iterdir()) == []
    assert live(shared_cluster) == []


def live(cluster: Slurm) -> list[str]:
    """The jobs of `hora doctor` that Slurm has not ended."""
    ended = ("CANCELLED", "COMPLETED", "COMPLETING")
    return [name for name, state in cluster.jobs().items() if name.startswith("hora-doctor") and state not in ended]


@contextmanager
def mounted(cluster: Slurm, *arguments: str, at: Path) -> Iterator[None]:
    """Mount something on the node n2, which no other machine sees."""
    assert cluster.network is not None
    inside = cluster.network.inside("n2")
    run(*inside, "mount", *arguments, str(at))
    try:
        yield
    finally:
        run(*inside, "umount", str(at))


def hidden(cluster: Slurm, folder: Path) -> AbstractContextManager[None]:
    """Let n2 see an empty folder there."""
    return mounted(cluster, "-t", "tmpfs", "tmpfs", at=folder)


@contextmanager
def busy(cluster: Slurm) -> Iterator[None]:
    """Let somebody else use all nodes."""
    cluster.run("sbatch", "--nodes=2", "--exclusive", "--job-name=others", "--output=/dev/null", "--wrap=sleep 600")
    until(lambda: cluster.jobs()["others"] == "RUNNING", what="others")
    try:
        yield
    finally:
        cluster.end_jobs()


def findings() -> dict[str, Finding]:
    """What was found, by check."""
    return {finding.check: finding for finding in slurm_findings()}


def problem() -> Finding:
    """The one that is not ok."""
    (finding,) = [finding for finding in findings().values() if finding.level != "ok"]
    return finding


def test_a_pool_that_works_gets_no_warning(cluster: Slurm, monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    monkeypatch.setenv("HORA_DATA_ROOTS", f"{home}:s3://bucket/sets")
    found = findings()
    assert {check: finding.level for check, finding in found.items()} == dict.fromkeys(
        ("slurm", "partition", "test job"), "ok"
    )
    assert found["partition"].found == "main: 2 of 2 nodes are up"
    assert found["test job"].found.startswith("Slurm takes a job with --nodelist=n2; n2 has HORA_HOME, the data and")
    monkeypatch.delenv("HORA_SLURM_PARTITION")
    assert findings() == {}, "nothing is said on other machines"


def test_a_node_that_does_not_share_the_home_or_cannot_write_it_is_named(cluster: Slurm, home: Path) -> None:
    with hidden(cluster, home):
        finding = problem()
    assert (finding.check, finding.level) == ("node home", "fail")
    assert finding.found == f"n2 does not see what this machine writes to {home}"
    assert cluster.network is not None
    with mounted(cluster, "--bind", str(home), at=home):
        run(*cluster.network.inside("n2"), "mount", "-o", "remount,bind,ro", str(home))
        assert problem().found == f"n2 cannot write to {home}"


@contextmanager
def an_hour_ago(cluster: Slurm, folder: Path) -> Iterator[None]:
    """Let the clock of n2 be behind."""
    date = Path(str(shutil.which("date")))
    shutil.copy(date, folder / "date-of-system")
    program = folder / "date"
    program.write_text(f"#!/bin/sh\nexec {folder}/date-of-system -d '-1 hour' \"$@\"\n")
    program.chmod(0o755)
    with mounted(cluster, "--bind", str(program), at=date):
        yield


def test_all_that_a_node_lacks_is_named(cluster: Slurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data, table = tmp_path / "data" / "images", tmp_path / "hosts"
    data.mkdir(parents=True)
    table.write_text("127.0.0.1 localhost\n127.0.1.1 n2\n")
    monkeypatch.setenv("HORA_DATA_ROOTS", str(data))
    with (
        hidden(cluster, data.parent),
        hidden(cluster, PYTHON.parent),
        mounted(cluster, "--bind", str(table), at=Path("/etc/hosts")),
        an_hour_ago(cluster, tmp_path),
    ):
        found = findings()
    assert found["node data"].found == f"not on n2: {data}"
    assert found["node python"].found == f"n2 has no {PYTHON}"
    assert "means 127.0.1.1 there" in found["node name"].found
    assert re.search(r"n2 and this machine are (1 h 00 min|59 min 59 s) apart", found["node clock"].found)
    assert [found[f"node {what}"].level for what in ("data", "python", "name", "clock")] == ["fail"] * 2 + ["warn"] * 2
    assert "test job" not in found


@pytest.mark.parametrize(
    ("setting", "value", "check", "said"),
    [
        ("HORA_SLURM_PARTITION", "nowhere", "partition", "there is no partition nowhere"),
        ("HORA_SLURM_ARGS", "--gres=gpu:64", "test job", "Slurm refuses a job with --gres=gpu:64: Requested node conf"),
        ("HORA_HOME", "/nowhere", "test job", "no folder in /nowhere: No such file"),
    ],
)
def test_a_wrong_setting_is_named(
    cluster: Slurm, monkeypatch: pytest.MonkeyPatch, setting: str, value: str, check: str, said: str
) -> None:
    monkeypatch.setenv(setting, value)
    finding = findings()[check]
    assert (finding.level, finding.found[: len(said)]) == ("fail", said)


def test_drained_nodes_get_no_test_job_and_a_controller_that_is_down_is_named(cluster: Slurm) -> None:
    for node in cluster.nodes:
        cluster.set_node(node, "drain")
    try:
        drained = findings()
    finally:
        for node in cluster.nodes:
            cluster.set_node(node, "resume")
    assert list(drained) == ["slurm", "partition"]
    assert drained["partition"].found == "main: 0 of 2 nodes are up: they are drained"
    cluster.stop_controller()
    try:
        away = findings()["partition"]
    finally:
        cluster.start_controller()
        until(lambda: "idle" in cluster.run("sinfo", "--noheader", "--format=%T"), what="the controller")
    assert (away.level, "does not answer" in away.found) == ("fail", True)


def facts() -> dict[str, Any]:
    """What a check in this process sees."""
    of_pool = Settings().of_pool
    assert of_pool is not None
    return check.facts_of(of_pool, stop=Event())


@pytest.mark.usefixtures("heeds_ctrl_c")
def test_a_test_job_that_waits_is_a_warning_and_an_interrupt_takes_it_out_of_slurm(
    cluster: Slurm, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check, "_START_S", 4.0)
    program = "from hora.doctor.slurm import slurm_findings; list(slurm_findings())"
    with busy(cluster):
        (finding,) = [finding for finding in judged(facts()) if finding.level != "ok"]
        assert (finding.check, finding.level, live(cluster)) == ("test job", "warn", [])
        assert "its nodes are in use" in finding.found
        with subprocess.Popen([PYTHON, "-c", program], stderr=subprocess.DEVNULL) as doctor:
            until(lambda: live(cluster), what="the test job")
            assert len(list(home.iterdir())) == 1
            doctor.send_signal(signal.SIGINT)
            assert doctor.wait(240) == -signal.SIGINT
            assert (live(cluster), list(home.iterdir())) == ([], [])
    mine = f"HORA_HOME={home}".encode()
    assert not [pid for pid in pids() if pid != os.getpid() and mine in environment(pid)]
