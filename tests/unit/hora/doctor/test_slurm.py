"""What `hora doctor` says about the pool of a login node, from what the worker's program saw."""

from typing import Any

import pytest

from hora.doctor.slurm import judged

ALL_WELL = {
    "partition": "main", "options": ["--account=lab"], "home": "/shared/hora", "python": "/shared/venv/bin/python",
    "hora": "1.2", "missing": [], "version": "23.11.4", "nodes": 4, "unusable": {"n4": "down*"}, "node": "n1",
    "clock_apart_s": 0.0, "reads_home": True, "writes_home": True, "home_is_shared": True, "own_address": "10.0.0.1",
    "hora_there": "1.2", "lacks": [],
}  # fmt: skip
UNTIL_THE_NODES = {name: ALL_WELL[name] for name in ("partition", "options", "home", "missing", "version")}
UNTIL_THE_JOB = UNTIL_THE_NODES | {name: ALL_WELL[name] for name in ("nodes", "unusable")}


def of(**facts: Any) -> list[tuple[str, str, str]]:
    """What is said if these facts differ."""
    return said(ALL_WELL | facts)


def said(facts: dict[str, Any]) -> list[tuple[str, str, str]]:
    """What is wrong by these facts. Each finding says what to do about it."""
    wrong = [finding for finding in judged(facts) if finding.level != "ok"]
    assert all(finding.advice for finding in wrong)
    return [(finding.check, finding.level, finding.found) for finding in wrong]


def test_a_pool_that_works_gets_no_warning() -> None:
    assert [finding.found for finding in judged(ALL_WELL)] == [
        "Slurm 23.11.4",
        "main: 3 of 4 nodes are up",
        "Slurm takes a job with --account=lab; n1 has HORA_HOME, the data and Hora 1.2",
    ]


@pytest.mark.parametrize(
    ("facts", "found"),
    [
        ({"away": "Unable to contact slurm controller"}, "Slurm does not answer: Unable to contact slurm controller"),
        ({"refused": "there is no partition main"}, "there is no partition main"),
        ({"nodes": 2, "unusable": {"n1": "down*", "n2": "drained"}}, "main: 0 of 2 nodes are up: they are down*, dra"),
    ],
)
def test_a_partition_without_usable_nodes_is_a_failure(facts: dict[str, Any], found: str) -> None:
    ((check, level, text),) = said(UNTIL_THE_NODES | facts)
    assert (check, level, text[: len(found)]) == ("partition", "fail", found)


@pytest.mark.parametrize(
    ("facts", "level", "found"),
    [
        ({"refused": "Invalid account"}, "fail", "Slurm refuses a job with --account=lab: Invalid account"),
        ({"refused": "Invalid account", "options": []}, "fail", "Slurm refuses a job: Invalid account"),
        ({"away": "timed out"}, "fail", "Slurm does not answer: timed out"),
        ({"no_folder": "Permission denied"}, "fail", "no folder in /shared/hora: Permission denied"),
        ({"waits": "waits in Slurm"}, "warn", "no node in time, so none was checked: the test job waits in Slurm"),
        ({"ended": "FAILED (NonZeroExitCode)"}, "fail", "Slurm ended the test job at once: FAILED (NonZeroExitCode)"),
        ({"node": "n1", "away": "no answer"}, "fail", "`srun` here cannot use n1: no answer"),
        ({"node": "n1", "refused": "expired"}, "fail", "`srun` here cannot use n1: expired"),
    ],
)
def test_a_test_job_that_checks_no_node_says_why(facts: dict[str, Any], level: str, found: str) -> None:
    assert said(UNTIL_THE_JOB | facts) == [("test job", level, found)]


@pytest.mark.parametrize(
    ("facts", "check", "level", "found"),
    [
        ({"reads_home": False}, "node home", "fail", "n1 does not see what this machine writes to /shared/hora"),
        ({"writes_home": False}, "node home", "fail", "n1 cannot write to /shared/hora"),
        ({"home_is_shared": False}, "node home", "fail", "this machine does not see what n1 writes to /shared/hora"),
        ({"hora_there": None}, "node python", "fail", "n1 has no /shared/venv/bin/python"),
        ({"hora_there": "1.1"}, "node python", "fail", "/shared/venv/bin/python on n1 has not Hora 1.2, but says: 1.1"),
        ({"lacks": ["/data", "/more"]}, "node data", "fail", "not on n1: /data, /more"),
        ({"clock_apart_s": 2.1}, "node clock", "warn", "n1 and this machine are 2.1 s apart"),
        ({"own_address": "127.0.1.1"}, "node name", "warn", "the own name of n1 means 127.0.1.1 there: no job on seve"),
        ({"own_address": ""}, "node name", "warn", "the own name of n1 means nothing there: no job on several nodes c"),
    ],
)
def test_what_is_wrong_with_a_node_is_said(facts: dict[str, Any], check: str, level: str, found: str) -> None:
    ((named, as_level, text),) = of(**facts)
    assert (named, as_level, text[: len(found)]) == (check, level, found)


def test_all_problems_of_a_node_are_said_at_once() -> None:
    found = of(reads_home=False, writes_home=False, hora_there=None, lacks=["/data"], clock_apart_s=60.0)
    assert [check for check, *_ in found] == ["node home", "node python", "node data", "node clock"]
    assert said({"missing": ["srun", "sinfo"]}) == [("slurm", "fail", "not found: srun, sinfo")]
    for version in ("21.08.8-2", "22.02.3"):
        assert of(version=version) == [("slurm", "fail", f"Slurm {version}")]
    for fine in ({"clock_apart_s": 1.9}, *({"version": version} for version in ("22.05.0", "24.11.0-0rc1", "unknown"))):
        assert of(**fine) == []
    assert of(nodes=1, unusable={}, own_address="127.0.1.1") == []
