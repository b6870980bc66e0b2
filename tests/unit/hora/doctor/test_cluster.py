"""What `hora doctor` finds in the service's answers about its readiness, hosts and jobs."""

from typing import Any

import pytest

from hora.doctor.cluster import advice_on, host_findings, readiness_findings, restarted, stuck
from hora.service import NotAuthorized, ProblemError

Json = dict[str, Any]
INFO = {"peers": "k1", "interface": "eth0", "versions": {"hora": "0.1.0"}}
READY = {"status": "ok", "database": "ok", "schema": "ok", "broker": "ok"}


def a_host(name: str = "ha", *, slots: int = 2, states: str = "", kind: str = "cpu", **changes: Any) -> Json:
    """A host that is alive; `states` has the first letter of each slot's state."""
    words = {
        "f": "free", "l": "leased", "q": "quarantined", "r": "retired", "u": "unhealthy", "o": "in_use_by_others",
    }  # fmt: skip
    found = [
        {"index": index, "kind": kind, "state": words[letter], "job_id": "0abc", "attempt": 2}
        for index, letter in enumerate(states or "f" * slots)
    ]
    base = {"name": name, "alive": True, "drained_at": None, "address": f"10.0.0.{len(name)}", "slots": found}
    return {**base, "info": INFO, **changes}


def a_job(gpus: int = 1, *, attempt: int = 0, **changes: Any) -> Json:
    spec = {"min_gpus": None, "device": "auto", "placement": "pack"}
    of_spec = {*spec, "gpu_model", "gpu_memory_gb", "mixed_gpus", "pool"}
    spec |= {name: changes.pop(name) for name in tuple(changes) if name in of_spec}
    return {"id": "0abc", "gpus": gpus, "attempt": attempt, "spec": spec, "losses": 0, "restarts": 0, **changes}


def findings_of(*hosts: Json) -> dict[str, tuple[str, str]]:
    """The level and the finding of each check of these hosts."""
    return {one.check: (one.level, one.found) for one in host_findings(hosts)}


MIXED = a_host() | {
    "slots": [
        {"index": n, "kind": "gpu", "name": model, "state": "free"}
        for n, model in enumerate(("A100", "A100", "H100", "H100"))
    ]
}
NO_SPACE = "runs has 0.1 MB free, less than 1.0 GB"
DRAINED = {"drained_at": "2030-01-01T00:00:00Z"}


def test_a_service_that_is_not_quite_ready_is_warned_of() -> None:
    assert [one.level for one in readiness_findings(READY)] == ["ok", "ok"]
    database, broker = readiness_findings(READY | {"schema": "0009; this version was made for 0003", "broker": "away"})
    assert (database.level, "0009" in database.found, broker.level) == ("warn", True, "warn")
    _, space, _ = readiness_findings(READY | {"status": "no_space", "space": ["datasets has 0.1 MB free"]})
    assert (space.check, space.level, space.found) == ("space", "fail", "datasets has 0.1 MB free")


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (NotAuthorized(401, "Not authenticated"), "HORA_TOKEN"),
        (ProblemError(503, "Unavailable", "the database is not migrated: it is at 0002"), "migrations upgrade"),
        (ProblemError(500, "Internal error"), "api's log"),
    ],
)
def test_a_refused_request_comes_with_advice(error: ProblemError, advice: str) -> None:
    assert advice in advice_on(error)


@pytest.mark.parametrize(
    ("hosts", "level", "found"),
    [
        ([a_host(), a_host("hbb")], "ok", "2 of 2 alive, 4 of 4 slots free"),
        ([], "fail", "No job can start"),
        ([a_host(**DRAINED)], "fail", "undrain"),
        ([a_host(no_space=NO_SPACE)], "fail", "Delete files there"),
        ([a_host(), a_host("hb", alive=False)], "warn", "hora hosts forget"),
        ([a_host(), a_host("hb", alive=False), a_host("hc", **DRAINED)], "warn", "2 of 3 alive, 2 of 2 slots free; dr"),
        ([a_host(), a_host("hb", no_space=NO_SPACE)], "warn", f"2 of 2 slots free; without space: hb ({NO_SPACE})"),
        ([a_host(states="fqlq")], "warn", "ha: 1, 3 quarantined: a process of 0abc.2 does not end"),
    ],
)
def test_what_keeps_hosts_from_taking_jobs_is_named(hosts: list[Json], level: str, found: str) -> None:
    *_, finding = host_findings(hosts)
    assert (finding.level, found in f"{finding.found} {finding.advice}") == (level, True)


def test_hosts_that_differ_are_named_with_the_reason() -> None:
    info = INFO | {"versions": {"hora": "0.2.0"}, "clock_offset_s": -75.0}
    found = findings_of(
        a_host(), a_host("hb", info=info), a_host("hc", info={**info, "clock_offset_s": 1.5}, alive=False)
    )
    assert found["host versions"] == ("warn", "ha 0.1.0, hb 0.2.0")
    assert found["host clocks"] == ("warn", "hb is 1 min 15 s behind the database")
    alone = a_host("hb", address=None)
    assert findings_of(a_host(), alone)["several hosts"] == ("warn", "take no part in jobs on several hosts: hb")
    others = [a_host("hc", info=INFO | {"peers": "k2", "interface": "ib0"}), a_host("hd", info=INFO | {"peers": "k3"})]
    apart = "cannot share jobs with ha: hc (interface ib0, not eth0), hd (another setting differs)"
    assert findings_of(a_host(), a_host("hb"), *others)["several hosts"] == ("warn", apart)
    assert "several hosts" not in findings_of(alone)  # one host needs no other
    assert findings_of(alone, a_host("hc", address=None))["several hosts"][0] == "ok"  # no host has an address


@pytest.mark.parametrize(
    ("job", "hosts", "level"),
    [
        (a_job(3, placement="single_host"), [a_host(), a_host("hb")], "warn"),
        (a_job(3), [a_host(), a_host("hb", address=None)], "warn"),
        (a_job(3), [a_host(), a_host("hb", info={"peers": "k2"})], "warn"),
        (a_job(3), [a_host(), a_host("hb", **DRAINED)], "warn"),
        (a_job(1, device="gpu"), [a_host()], "warn"),
        (a_job(2), [a_host(states="fqr")], "warn"),
        (a_job(4), [a_host(), a_host("hb")], "ok"),
        (a_job(3, min_gpus=1, attempt=1), [a_host()], "ok"),
        (a_job(9, paused_at="2030-01-01T00:00:00Z"), [a_host()], "ok"),
        (a_job(4, gpu_model="b200"), [MIXED], "warn"),
        (a_job(4, mixed_gpus=True), [MIXED], "ok"),
        (a_job(2, gpu_model="a100"), [MIXED], "ok"),
        # A job for either device waits for the GPUs of a lost host.
        (a_job(), [a_host(), a_host("hb", kind="gpu", alive=False)], "warn"),
        (a_job(device="cpu"), [a_host(), a_host("hb", kind="gpu", alive=False)], "ok"),
        (a_job(), [a_host(), a_host("hb", kind="gpu", states="uu", alive=False)], "ok"),
    ],
)
def test_a_job_that_no_set_of_hosts_can_hold_is_reported_as_stuck(job: Json, hosts: list[Json], level: str) -> None:
    finding = stuck([job], hosts)
    assert (finding.level, "0abc" in finding.found) == (level, level == "warn")


def test_unhealthy_slots_and_unused_gpus_are_reported_with_the_reason() -> None:
    host = a_host(states="ufuo", kind="gpu", info=INFO | {"device_problem": "TensorFlow is built for CPUs"})
    for slot in host["slots"]:
        slot["unhealthy"] = "it is off the bus" if slot["state"] == "unhealthy" else None
    found = findings_of(host)
    assert found["slots"] == ("warn", "ha: GPU 0 2 unhealthy: it is off the bus")
    assert found["GPUs"] == ("warn", "ha: TensorFlow is built for CPUs")
    assert "GPUs" not in findings_of({**host, "alive": False})


def test_job_with_many_restarts_or_losses_is_named() -> None:
    assert restarted([a_job(losses=2, restarts=2)]).level == "ok"
    assert restarted([a_job(), a_job(losses=3)]).found == "0abc (0 failed, 3 lost)"
    assert restarted([a_job(restarts=5)]).level == "warn"


NODE = {"name": "n1", "state": "idle", "cpus": 8, "memory_bytes": 2**34, "gpus": {"a100": 4}, "features": []}
POOL = {"name": "slurm:main", "alive": True, "slots": [], "nodes": [NODE, NODE | {"name": "n2"}], "info": {}}


def test_a_pool_takes_jobs_without_slots_of_its_own() -> None:
    found = findings_of(POOL)
    assert found["hosts"] == ("ok", "1 of 1 alive, 0 of 0 slots free")
    assert found["pools"] == ("ok", "slurm:main with 2 nodes")
    assert "several hosts" not in findings_of(POOL, a_host())
    away = POOL | {"problem": "unable to contact slurm controller"}
    assert findings_of(away)["pools"][0] == "warn"
    assert stuck([a_job(8, device="auto")], [POOL]).level == "ok"
    assert stuck([a_job(9, device="auto")], [POOL]).level == "warn"
    in_pool = a_job(2, pool="slurm:main")
    assert stuck([in_pool], [a_host(), POOL]).level == "ok"
    assert stuck([in_pool], [a_host(), away]).level == "warn"
    assert stuck([in_pool], [a_host()]).level == "warn"
