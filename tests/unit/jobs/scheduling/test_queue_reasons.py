"""The sentence that says why a queued job waits."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from jobs.scheduling.allowances import Quota
from jobs.scheduling.fitting import Cluster
from jobs.scheduling.placement_rows import RegisteredHost
from jobs.scheduling.queue_reasons import WaitsFor, explain
from jobs.scheduling.shortage import shortage
from jobs.scheduling.slots import HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike, class_slots


def host(name: str, free: int, capacity: int = 4, **values: Any) -> RegisteredHost:
    slots = alike(name, values.pop("kind", "cpu"), free, capacity, values.pop("peers", None))
    return RegisteredHost(slots, **{"alive": True, "drained": False, "kept_for": None} | values)


def reason_for(gpus: int, *hosts: RegisteredHost, waits_for: WaitsFor | None = None, **request: Any) -> str:
    return explain("j", SlotRequest(gpus, **request), hosts, waits_for or WaitsFor())


def limited(slots: int = 0, max_slots: int | None = None, ahead: int = 0, **hours: Any) -> WaitsFor:
    used = {"gpu_hours": 0.0, "max_gpu_hours": None} | hours
    renews_at = datetime(2026, 12, 1, tzinfo=UTC)
    quota = Quota("vision", max_slots, slots=slots, renews_at=renews_at, **used)
    return WaitsFor(quota=quota, ahead=ahead, leaving=["a"])


OVER_STORAGE = replace(limited(max_storage_gb=10, storage_gb=12.34), most_stored=("k", 4.2))
KEPT = "its project vision keeps 12.3 of 10 GB, the most by job k (4.2 GB)"
ALL_UNFINISHED = "its project vision keeps 2,345.7 of 2,000 GB, all by jobs that have not ended"
ROOMY, TAKEN = host("ha", 4), host("ha", 0)
LOST, DRAINED = host("hl", 4, alive=False), host("hd", 4, drained=True)
FULL = host("hf", 4, no_space="runs has 0.1 MB free, less than 1.0 GB")
NO_SPACE = "hf takes no jobs until there is space: runs has 0.1 MB free, less than 1.0 GB"
TWO_LEAVE = WaitsFor(leaving=["a", "b"])
PAIR = [host("ha", 2, peers="eth0"), host("hb", 1, peers="eth0")]


GPUS = RegisteredHost(
    HostSlots(
        "hg",
        (
            class_slots(SlotClass("hg", "gpu", "NVIDIA A100-SXM4-40GB", 42_900_000_000), 1, 2),
            class_slots(SlotClass("hg", "gpu", "NVIDIA H100", 85_000_000_000), [2], 2),
            class_slots(SlotClass("hg", "cpu"), [4, 5, 6, 7]),
        ),
    ),
    alive=True,
    drained=False,
    kept_for=None,
)
MODELS = "the hosts have NVIDIA A100-SXM4-40GB (2), NVIDIA H100 (2)"
MIXED_WOULD_DO = "the largest group of one model is 2 x NVIDIA H100; mixed_gpus: true would allow 4"
UNHEALTHY = "1 slot of hg is unhealthy"
MEMORIES = "the hosts have NVIDIA A100-SXM4-40GB with 42.9 GB (2), NVIDIA H100 with 85.0 GB (2)"


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (reason_for(1, GPUS, gpu_model="b200"), f"needs 1 GPU; no host has a GPU whose name contains 'b200': {MODELS}"),
        (
            reason_for(1, GPUS, gpu_model="a100", gpu_memory_gb=80.0),
            f"needs 1 GPU; no host has a GPU whose name contains 'a100' and with at least 80 GB: {MEMORIES}",
        ),
        (reason_for(4, GPUS), f"needs 4 GPUs of one model on one host; the largest host has 2; {MIXED_WOULD_DO}"),
        (reason_for(2, GPUS), "needs 2 GPUs of one model on one host; best host has 1 free"),
        (reason_for(4, GPUS, mixed_gpus=True), "needs 4 GPUs on one host; best host has 2 free"),
        (reason_for(5, GPUS, device="cpu"), "needs 5 cpu slots on one host; the largest host has 4"),
        (
            reason_for(2, replace(GPUS, alive=False), ROOMY),
            "needs 2 GPUs of one model; no live host has such slots (lost: hg); device: cpu would use CPU slots",
        ),
        (
            reason_for(1, host("ha", 0, unhealthy=2, kind="gpu"), host("hb", 0, kind="gpu")),
            "needs 1 slot; none is free; 2 slots of ha are unhealthy",
        ),
        (
            reason_for(1, replace(GPUS, slots=replace(GPUS.slots, classes=()), unhealthy=1), gpu_model="h100"),
            f"needs 1 GPU; no host has a GPU whose name contains 'h100': no GPU is in service; {UNHEALTHY}",
        ),
    ],
)
def test_reason_names_the_gpus_that_the_job_chooses(told: str, reason: str) -> None:
    assert told == reason


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("a100 sxm4", "A100-SXM4"), ("A10O", "A100"), ("H1000", "H100"), ("nvidia-h100", "NVIDIA H100"),
        ("a100-sxm4-80gb", "A100-SXM4-40GB"), ("tesla", None), ("b100", None),
    ],
)  # fmt: skip
def test_a_misspelt_model_gets_the_name_that_was_probably_meant(text: str, meant: str | None) -> None:
    problem = shortage(Cluster([GPUS.slots]), SlotRequest(1, gpu_model=text))
    assert (problem.field, problem.received) == ("gpu_model", text)
    assert problem.text == f"no host has a GPU whose name contains '{text}': {MODELS}" + (
        f"; did you mean '{meant}'?" if meant else ""
    )


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        (reason_for(1, waits_for=WaitsFor(paused=True, why_paused="its GPU was idle")), "paused: its GPU was idle"),
        (reason_for(1, ROOMY, waits_for=WaitsFor(pause_s=11.6)), "waits 12 s more after a failed attempt"),
        (reason_for(1), "no host is alive"),
        (reason_for(2, LOST, ROOMY, device="gpu"), "needs 2 gpu slots; no live host has such slots"),
        (reason_for(1, LOST, DRAINED), "needs 1 slot; all hosts with such slots are drained"),
        (reason_for(1, LOST, FULL), f"needs 1 slot; no host with such slots has space; {NO_SPACE}"),
        (reason_for(4, host("ha", 2), FULL), f"needs 4 slots on one host; best host has 2 free; {NO_SPACE}"),
        (reason_for(8, ROOMY, FULL), f"needs 8 slots on one host; the largest host has 4; {NO_SPACE}"),
        (reason_for(12, *PAIR), "needs 12 slots; the hosts that work together have 8"),
        (reason_for(7, *PAIR), "needs 7 slots, the same number on each host; of 8, at most 4 are on one host"),
        (reason_for(4, host("ha", 2), host("hb", 1)), "needs 4 slots on one host; best host has 2 free"),
        (reason_for(1, TAKEN), "needs 1 slot; none is free"),
        (reason_for(8, *PAIR), "needs 8 slots; 3 are free"),
        (reason_for(3, *PAIR), "needs 3 slots, the same number on each host; 3 are free, at most 2 on one host"),
        (reason_for(1, host("ha", 2, kept_for="k")), "2 slots are free, but kept for job k, which comes first"),
        (reason_for(1, host("ha", 1, kept_for="j")), "is next"),
        (reason_for(1, ROOMY, waits_for=limited(4, 4)), "its project vision has 4 of 4 slots in use"),
        (reason_for(4, ROOMY, waits_for=limited(0, 2)), "needs 4 slots; its project vision may have 2 at once"),
        (
            reason_for(2, ROOMY, waits_for=limited(1, 4, ahead=2)),
            "its project vision has 1 of 4 slots in use, and other jobs of the project come first",
        ),
        (reason_for(2, TAKEN, waits_for=limited(1, 4, ahead=1)), "waits for job a to save and make room"),
        (
            reason_for(2, ROOMY, waits_for=limited(gpu_hours=1234.56, max_gpu_hours=1000)),
            "its project vision used 1,234.6 of 1,000 GPU-hours this month; it continues at 2026-12-01 00:00 UTC",
        ),
        (
            reason_for(1, ROOMY, waits_for=limited(max_storage_gb=2000, storage_gb=2345.67)),
            f"{ALL_UNFINISHED}; it continues when files of jobs are removed",
        ),
        (reason_for(3, ROOMY, waits_for=OVER_STORAGE), f"{KEPT}; it continues when files of jobs are removed"),
        (reason_for(1, ROOMY, waits_for=replace(OVER_STORAGE, keeps_files=True, leaving=[])), "is next"),
        (reason_for(4, TAKEN, waits_for=TWO_LEAVE), "waits for jobs a and b to save and make room"),
    ],
)
def test_reason_says_why_the_job_waits(told: str, reason: str) -> None:
    assert told == reason
