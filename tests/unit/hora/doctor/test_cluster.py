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
    spec |= {name: changes.pop(name) for name in tuple(changes) if name in spec}
    return {"id": "0abc", "gpus": gpus, "attempt": attempt, "spec": spec, "losses": 0, "restarts": 0, **changes}


def findings_of(*hosts: Json) -> dict[str, tuple[str, str]]:
    """The level and the finding of each check of these hosts."""
    return {one.check: (one.level, one.found) for one in host_findings(hosts)}


def test_ready_service_gets_no_warning() -> None:
    assert [one.level for one in readiness_findings(READY)] == ["ok", "ok"]


def test_schema_mismatch_and_unavailable_broker_are_warnings() -> None:
    database, broker = readiness_findings(READY | {"schema": "0009; this version was made for 0003", "broker": "away"})
    assert (database.level, broker.level) == ("warn", "warn")
    assert "0009" in database.found


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (NotAuthorized(401, "Not authenticated"), "HORA_TOKEN"),
        (ProblemError(503, "Unavailable", "the database is not migrated: it is at 0002"), "migrations upgrade"),
        (ProblemError(503, "Unavailable", "the database does not answer"), "logs of the database and the api"),
        (ProblemError(500, "Internal error"), "api's log"),
    ],
)
def test_a_refused_request_comes_with_advice(error: ProblemError, advice: str) -> None:
    assert advice in advice_on(error)


def test_healthy_hosts_are_summed_up_in_one_finding() -> None:
    assert findings_of(a_host(), a_host("hbb")) == {"hosts": ("ok", "2 of 2 alive, 4 of 4 slots free")}


def test_finding_without_a_usable_slot_is_a_failure() -> None:
    for hosts in ([], [a_host(alive=False)], [a_host(drained_at="2030-01-01T00:00:00Z")]):
        (finding,) = host_findings(hosts)
        assert (finding.level, "No job can start" in finding.advice) == ("fail", True)
    assert "undrain" in finding.advice


def test_a_lost_host_and_a_drained_one_are_named() -> None:
    (finding,) = host_findings([a_host(), a_host("hb", alive=False), a_host("hc", drained_at="2030-01-01T00:00:00Z")])
    assert (finding.level, finding.found) == ("warn", "2 of 3 alive, 2 of 2 slots free; drained: hc")
    assert "hora hosts forget" in finding.advice


def test_hosts_without_space_are_named_with_their_folder() -> None:
    why = "runs has 0.1 MB free, less than 1.0 GB"
    (one,) = host_findings([a_host(), a_host("hb", no_space=why)])
    assert (one.level, one.found) == ("warn", f"2 of 2 alive, 2 of 2 slots free; without space: hb ({why})")
    (only,) = host_findings([a_host(no_space=why)])
    assert (only.level, "Delete files there" in only.advice) == ("fail", True)
    _, space, _ = readiness_findings(READY | {"status": "no_space", "space": ["datasets has 0.1 MB free"]})
    assert (space.check, space.level, space.found) == ("space", "fail", "datasets has 0.1 MB free")


def test_quarantined_slots_name_the_process_to_look_for() -> None:
    _, finding = host_findings([a_host(states="fqlq")])
    assert (finding.level, finding.found) == ("warn", "ha: 1, 3 quarantined: a process of 0abc.2 does not end")
    assert "HORA_ATTEMPT=0abc.2" in finding.advice


def test_versions_and_clocks_that_differ_are_named() -> None:
    info = INFO | {"versions": {"hora": "0.2.0"}, "clock_offset_s": -75.0}
    found = findings_of(
        a_host(), a_host("hb", info=info), a_host("hc", info={**info, "clock_offset_s": 1.5}, alive=False)
    )
    assert found["host versions"] == ("warn", "ha 0.1.0, hb 0.2.0")
    assert found["host clocks"] == ("warn", "hb is 1 min 15 s behind the database")


def test_hosts_that_cannot_work_together_are_named_with_the_reason() -> None:
    alone = a_host("hb", address=None)
    assert findings_of(a_host(), alone)["several hosts"] == ("warn", "take no part in jobs on several hosts: hb")
    other = a_host("hc", info=INFO | {"peers": "k2", "interface": "ib0"})
    third = a_host("hd", info=INFO | {"peers": "k3"})
    assert findings_of(a_host(), a_host("hb"), other, third)["several hosts"] == (
        "warn",
        "cannot share jobs with ha: hc (interface ib0, not eth0), hd (another setting differs)",
    )
    assert "several hosts" not in findings_of(alone)  # one host needs no other
    assert findings_of(alone, a_host("hc", address=None))["several hosts"][0] == "ok"  # no host has an address


@pytest.mark.parametrize(
    ("job", "hosts"),
    [
        (a_job(3, placement="single_host"), [a_host(), a_host("hb")]),
        (a_job(5), [a_host(), a_host("hb")]),
        (a_job(3), [a_host(), a_host("hb", address=None)]),
        (a_job(3), [a_host(), a_host("hb", info={"peers": "k2"})]),
        (a_job(3), [a_host(), a_host("hb", drained_at="2030-01-01T00:00:00Z")]),
        (a_job(1, device="gpu"), [a_host()]),
        (a_job(3), [a_host(), a_host("hb", kind="gpu")]),
        (a_job(2), [a_host(states="fqr")]),
        (a_job(3, min_gpus=1), [a_host()]),
    ],
)
def test_job_that_no_set_of_hosts_can_hold_is_reported_as_stuck(job: Json, hosts: list[Json]) -> None:
    finding = stuck([job], hosts)
    assert (finding.level, "0abc" in finding.found) == ("warn", True)


@pytest.mark.parametrize(
    ("job", "hosts"),
    [
        (a_job(4), [a_host(), a_host("hb")]),
        (a_job(2), [a_host(states="ll")]),
        (a_job(3, min_gpus=1, attempt=1), [a_host()]),
        (a_job(9, paused_at="2030-01-01T00:00:00Z"), [a_host()]),
    ],
)
def test_paused_job_or_job_that_can_start_later_is_not_reported_as_stuck(job: Json, hosts: list[Json]) -> None:
    assert stuck([job], hosts).level == "ok"


def gpus(name: str, *models: str) -> list[Json]:
    return [{"index": n, "kind": "gpu", "name": model, "state": "free"} for n, model in enumerate(models)]


def test_a_job_that_no_gpus_match_is_reported_as_stuck() -> None:
    host = a_host(slots=1) | {"slots": gpus("ha", "A100", "A100", "H100", "H100")}
    wish = {"device": "auto", "placement": "pack"}
    stuck_wishes: list[Json] = [{"gpu_model": "b200"}, {"gpu_memory_gb": 40}, {}]
    for more in stuck_wishes:
        assert stuck([{**a_job(4), "spec": wish | more}], [host]).level == "warn"
    assert stuck([{**a_job(4), "spec": wish | {"mixed_gpus": True}}], [host]).level == "ok"
    assert stuck([{**a_job(2), "spec": wish | {"gpu_model": "a100"}}], [host]).level == "ok"


def test_a_job_for_either_device_waits_for_the_gpus_of_a_lost_host() -> None:
    lost = a_host("hb", kind="gpu", alive=False)
    assert stuck([a_job()], [a_host(), lost]).level == "warn"
    assert stuck([a_job(device="cpu")], [a_host(), lost]).level == "ok"
    assert stuck([a_job()], [a_host(), a_host("hb", kind="gpu", states="uu", alive=False)]).level == "ok"


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
    in_pool = a_job(2)
    in_pool["spec"] |= {"pool": "slurm:main"}
    assert stuck([in_pool], [a_host(), POOL]).level == "ok"
    assert stuck([in_pool], [a_host(), away]).level == "warn"
    assert stuck([in_pool], [a_host()]).level == "warn"
