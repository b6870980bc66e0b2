"""What jobs ask a Slurm pool for, and which jobs go to one."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.allowances import Quota
from jobs.scheduling.contenders import Account, QueuedJob
from jobs.scheduling.decisions import PooledJob
from jobs.scheduling.placement import place_jobs
from jobs.scheduling.pools import Pool, PoolNode, Shape, to_avoid
from jobs.scheduling.slots import SlotRequest
from tests.slot_classes import alike
from tests.unit.jobs.scheduling.contending import job


def node(name: str, *, cpus: int = 64, features: tuple[str, ...] = (), **gpus: int) -> PoolNode:
    return PoolNode(name, "idle", cpus, 2**38, {"" if kind == "any" else kind: n for kind, n in gpus.items()}, features)


def pool(*nodes: PoolNode, problem: str | None = None) -> Pool:
    return Pool("slurm:main", nodes, problem)


TYPED = pool(node("a1", a100=8), node("a2", a100=8), node("h1", h100=4), node("c1", cpus=16))
UNTYPED = pool(node("n1", any=4, features=("a100", "nvlink")), node("n2", any=4, features=("v100",)))


@pytest.mark.parametrize(
    ("of", "request_", "shape"),
    [
        (TYPED, SlotRequest(4), Shape(1, 4, "gpu")),
        (TYPED, SlotRequest(16), Shape(2, 8, "gpu", gpu_type="a100")),
        (TYPED, SlotRequest(4, gpu_model="H100"), Shape(1, 4, "gpu", gpu_type="h100")),
        (TYPED, SlotRequest(8, gpu_model="h100"), None),
        (TYPED, SlotRequest(2, gpu_memory_gb=40), None),  # Slurm does not know the memory of a GPU
        (TYPED, SlotRequest(12, mixed_gpus=True), Shape(2, 6, "gpu")),
        (TYPED, SlotRequest(16, device="cpu"), Shape(1, 16, "cpu")),
        (TYPED, SlotRequest(12, placement="single_host"), None),
        (TYPED, SlotRequest(2, placement="spread"), Shape(2, 1, "gpu", gpu_type="a100")),
        (TYPED, SlotRequest(32, fewest_gpus=8), Shape(2, 8, "gpu", gpu_type="a100")),
        (UNTYPED, SlotRequest(4, gpu_model="a100"), Shape(1, 4, "gpu", feature="a100")),
        (UNTYPED, SlotRequest(4, gpu_model="h100"), None),
        (UNTYPED, SlotRequest(2), Shape(1, 2, "gpu")),
    ],
)
def test_a_job_asks_for_equal_parts_of_nodes_that_could_hold_it(
    of: Pool, request_: SlotRequest, shape: Shape | None
) -> None:
    assert of.shape(request_, auto="gpu") == shape


OF_P = Account("p", "u")
QUOTA = Quota("p", max_slots=5, max_gpu_hours=None, slots=1, gpu_hours=0.0, renews_at=None)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("queue", "free", "more", "placed", "in_pool"),
    [
        # hosts with room come first
        ([job("a", 2), job("b", 2), job("c", 2), job("d", 16)], 3, {}, ["a"], ["b", "c", "d"]),
        # a job goes only to the pool that it names
        ([job("a", 2, pool="slurm:main"), job("b", 2, pool="slurm:other"), job("c", 2)], 8, {}, ["c"], ["a"]),
        # a job that may shrink gets all its GPUs in the pool
        ([job("a", 16, fewest_gpus=2)], 4, {}, [], ["a"]),
        ([job("a", 16, fewest_gpus=2)], 4, {"pools": []}, ["a"], []),
        # a pool with a problem takes none, and quotas hold in a pool
        ([job("a", 2)], 0, {"pools": [pool(node("a1", a100=8), problem="the controller is away")]}, [], []),
        ([job(name, 2, account=OF_P) for name in "abc"], 0, {"quotas": [QUOTA]}, [], ["a", "b"]),
    ],
)
def test_the_pool_takes_what_no_host_has_room_for(
    queue: list[QueuedJob], free: int, more: dict[str, Any], placed: list[str], in_pool: list[str]
) -> None:
    decided = place_jobs(queue, [alike("ha", "gpu", free)] if free else [], **{"pools": [TYPED]} | more)
    assert [one.job_id for one in decided.placements] == placed
    assert [one.job_id for one in decided.pooled] == in_pool


def test_a_job_in_the_pool_reserves_no_slots_of_hosts() -> None:
    decided = place_jobs([job("d", 16)], [alike("ha", "gpu", 1, 4)], pools=[TYPED])
    assert decided.pooled == [PooledJob("d", "slurm:main", Shape(2, 8, "gpu", gpu_type="a100"))]
    assert not decided.reservations
    assert not decided.is_over


STATES = ("idle", "mixed", "idle", "down")
FOUR = [replace(node(f"n{number}", a100=4), state=state) for number, state in enumerate(STATES)]


@pytest.mark.parametrize(
    ("shape", "failing", "avoided"),
    [
        (Shape(1, 4, "gpu"), ["n0"], ["n0"]),
        (Shape(2, 4, "gpu"), ["n0"], ["n0"]),
        (Shape(2, 4, "gpu"), ["n1", "n0"], ["n1"]),  # the worst first; without both no job could start
        (Shape(3, 4, "gpu"), ["n0"], []),
        (Shape(1, 4, "gpu", gpu_type="h100"), ["n0"], []),
        (Shape(1, 64, "cpu"), ["gone", "n0"], ["n0"]),
    ],
)
def test_failing_nodes_are_avoided_while_enough_others_are_up(
    shape: Shape, failing: list[str], avoided: list[str]
) -> None:
    assert to_avoid(FOUR, shape, failing) == avoided


@pytest.mark.parametrize(
    ("state", "is_up", "is_down"),
    [
        ("idle", True, False), ("mixed-", True, False), ("allocated+", True, False), ("idle~", True, False),
        ("powered_down", True, False), ("reserved", True, False), ("draining", False, False), ("maint", False, False),
        ("down", False, True), ("down*", False, True), ("idle*", False, True), ("failing", False, True),
    ],
)  # fmt: skip
def test_the_state_of_a_node_says_whether_jobs_start_there(state: str, is_up: bool, is_down: bool) -> None:
    assert (replace(FOUR[0], state=state).is_up, replace(FOUR[0], state=state).is_down) == (is_up, is_down)


def test_a_node_of_a_later_version_can_be_read() -> None:
    assert PoolNode.from_json({**FOUR[0].to_json(), "new": 1}).name == "n0"
