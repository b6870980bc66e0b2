"""How the terminal shows hosts and their slots."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hora.render.hosts import host_facts, hosts_table, nodes_table, slots_table
from tests.printed import as_text, facts_of

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def gpu(index: int, **more: Any) -> dict[str, Any]:
    base = {"index": index, "kind": "gpu", "name": "K80", "uuid": f"GPU-{index}", "memory_bytes": 12_000_000_000}
    return {**base, "state": "free", "job_id": None, "attempt": None, "rank": None, "reading": None, **more}


NO_SPACE, NO_STORE = "runs has 0.1 MB free, less than 1.0 GB", "it was emptied, or it is not mounted"
SPACES = [{"folders": ["home", "cache"], "free_bytes": 5e9}, {"folders": ["runs"], "free_bytes": 1e5}]


@pytest.mark.parametrize(
    ("changes", "states", "free", "notes"),
    [
        ({}, "free leased quarantined", "1", "1 quarantined"),
        ({"alive": False}, "free", "0", ""),
        ({"drained_at": NOW.isoformat()}, "free quarantined", "0", "drained, 1 quarantined"),
        ({"kept_for": "0abc"}, "free", "1", "kept for 0abc"),
        ({"no_space": NO_SPACE}, "free", "0", f"no space: {NO_SPACE}"),
        ({"no_store": NO_STORE}, "free", "1", f"no store: {NO_STORE}"),
    ],
)
def test_free_slots_are_those_where_jobs_can_start(changes: dict[str, Any], states: str, free: str, notes: str) -> None:
    slots = [{"kind": "cpu", "name": "CPU share", "state": state} for state in states.split()]
    host = {"name": "a", "alive": True, "heartbeat_at": NOW.isoformat(), "slots": slots} | changes
    _, line = as_text(hosts_table([host], NOW)).splitlines()
    assert line.split()[:4] == ["a", "yes" if host["alive"] else "no", str(len(slots)), free]
    assert line.endswith(notes)
    facts = facts_of(host_facts(host | {"folders": SPACES}, now=NOW))
    assert facts["free space"] == "5.0 GB: home, cache\n0.1 MB: runs"
    assert "no_store" not in changes or facts["status"].endswith(notes)


def test_host_details_show_its_hardware_its_last_minute_and_that_it_is_drained() -> None:
    info = {
        "cores": 32, "memory_bytes": 64e9, "system": "Linux\x1b[2J", "driver": {"version": "550.1", "cuda": "12.4"},
        "gpus": [{"index": 0, "mig": False}, {"index": 1, "mig": True}, {"index": 2, "mig": None}],
    }  # fmt: skip
    seen = {"alive": True, "heartbeat_at": NOW.isoformat(), "drained_at": NOW.isoformat(), "slots": []}
    host = {"name": "ha", "address": "10.0.0.1", "info": info, **seen}
    lately = {
        "cpu_percent": [20.0, None, 60.0], "network_sent_bytes_per_s": [None], "disk_written_bytes_per_s": [1.5e6],
        "memory_bytes": [3e9, 3.2e9, 3.1e9],
    }  # fmt: skip
    series = [{"metric": name, "unit": "", "x": [*range(len(y))], "y": y} for name, y in lately.items()]
    known = {
        "host": "ha", "status": "alive, seen 0.0 s ago, drained", "address": "10.0.0.1", "cores": "32",
        "memory": "64.0 GB", "system": "Linux\\x1b[2J", "driver": "550.1, CUDA 12.4",
        "MIG": "on GPU 1, whose utilization is not known",
    }  # fmt: skip
    assert facts_of(host_facts(host, {"series": []}, NOW)) == known
    told = "CPU 40 %, memory 3.1 GB, written 1.5 MB/s"
    assert facts_of(host_facts(host, {"series": series}, NOW)) == known | {"last minute": told}


def test_topology_groups_gpu_pairs_by_their_link() -> None:
    alike = [(0, 1, 4, "system"), (0, 2, 4, None), (1, 2, 4, None)]
    mixed = [(0, 1, 4, None), (0, 2, 0, "hostbridge"), (1, 2, None, "hostbridge"), (1, 3, None, None)]
    grouped = "4 NVLinks: 0-1\nPCIe, one host bridge: 0-2 1-2\nnot known: 1-3"
    for ways, told in ((alike, "all pairs: 4 NVLinks"), (mixed, grouped)):
        pairs = [{"gpus": [one, other], "nvlinks": nvlinks, "pcie": pcie} for one, other, nvlinks, pcie in ways]
        lost = {"name": "ha", "alive": False, "heartbeat_at": None, "info": {"topology": pairs}}
        facts = facts_of(host_facts(lost, now=NOW))
        assert (facts["topology"], facts["status"]) == (told, "lost, seen -")


def test_slots_table_shows_the_readings_of_each_gpu() -> None:
    reading = {"percent": 83.0, "memory_bytes": 3_100_000_000, "power_w": 210.4, "temperature_c": 61.0}
    slots = [
        gpu(0, state="leased", job_id="0abc", rank=0, reading={**reading, "sm_clock_mhz": 1410.0, "throttle": 0x24}),
        gpu(1, reading={"percent": None, "processes": 2, "throttle": 1}),
        gpu(2, reading={"is_lost": True}),
        {**gpu(3, kind="cpu", name="CPU share", memory_bytes=None)},
    ]
    _, *lines = as_text(slots_table({"slots": slots})).splitlines()
    first, second, third, fourth = (" ".join(line.split()) for line in lines)
    told = "0 K80 leased 0abc 0 83 % 3.1 GB of 12.0 GB 210 W 61 °C 1,410 MHz slowed by its power limit, slowed by heat"
    assert first == told
    assert second == "1 K80 free - - - ? of 12.0 GB - - - 2 processes"
    assert third.endswith("lost")
    assert fourth == "3 CPU share free - - - - - - -"
    head, line = as_text(slots_table({"slots": slots[3:]})).splitlines()
    assert head.split() == ["SLOT", "DEVICE", "STATE", "JOB", "RANK"]
    assert line.split() == ["3", "CPU", "share", "free", "-", "-"]


def test_unhealthy_slots_and_those_that_others_use_are_counted_with_the_reason() -> None:
    why, problem = "XID 79: it is off the bus", "TensorFlow is built for CPUs\x1b[2J"
    slots = [
        *(gpu(index, state="unhealthy", unhealthy=why) for index in (0, 1)),
        gpu(2, state="in_use_by_others", in_use_by_others=True),
        gpu(3, name="A100", unhealthy=None),
        gpu(4, kind="cpu", name="CPU share"),
    ]
    seen = {"alive": True, "heartbeat_at": NOW.isoformat()}
    host = {"name": "a", "slots": slots, "info": {"device_problem": problem}, **seen}
    _, line = as_text(hosts_table([host], NOW), width=300).splitlines()
    assert line.split()[:5] == ["a", "yes", "5", "2", "cpu,"]
    assert "1 x A100, 1 x CPU share, 3 x K80" in line
    counted, shown = f"2 unhealthy ({why}), 1 in use by others", "TensorFlow is built for CPUs\\x1b[2J"
    assert line.endswith(f"{counted}, {shown}")
    facts = facts_of(host_facts(host, now=NOW))
    assert (facts["status"], facts["problem"]) == (f"alive, seen 0.0 s ago, {counted}", shown)
    _, first, _, third, *_ = (" ".join(row.split()) for row in as_text(slots_table(host), width=300).splitlines())
    assert first == f"0 K80 unhealthy - - - ? of 12.0 GB - - - {why}"
    assert third.startswith("2 K80 in use by others - -")


def test_a_pool_is_shown_with_what_slurm_says_of_its_nodes() -> None:
    node = {"name": "n1", "state": "idle", "cpus": 8, "memory_bytes": 2**34, "gpus": {"a100": 4}, "features": ["ib"]}
    nodes = [node, node | {"name": "n2", "state": "down*", "gpus": {"": 2}, "features": []}]
    pool = {"name": "slurm:main", "alive": True, "slots": [], "nodes": nodes, "problem": "the controller is away"}
    _, line = as_text(hosts_table([pool], NOW)).splitlines()
    text = "slurm:main yes 6 - gpu - 2 nodes: 1 down*, 1 idle takes no jobs: the controller is away"
    assert " ".join(line.split()) == text
    _, first, second = as_text(nodes_table(pool)).splitlines()
    assert first.split() == ["n1", "idle", "8", "17.2", "GB", "4", "x", "a100", "ib"]
    assert second.split() == ["n2", "down*", "8", "17.2", "GB", "2", "x", "GPU", "-"]
