"""Which jobs go where."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.placement import FreeSlots, Placement, Share, Waiting, place_jobs

PATIENCE_S = 300.0


def host(name: str, free: int, *, kind: str = "gpu", capacity: int | None = None) -> FreeSlots:
    return FreeSlots(name, kind, tuple(range(free)), free if capacity is None else capacity)


def job(job_id: str, gpus: int, *, device: str = "auto", waited_s: float = 0.0) -> Waiting:
    return Waiting(job_id, gpus, device, waited_s)


def placed(queue: list[Waiting], hosts: list[FreeSlots]) -> list[tuple[str, str]]:
    return [(one.job_id, one.shares[0].host) for one in place_jobs(queue, hosts, patience_s=PATIENCE_S)]


def test_the_queue_is_served_in_its_order() -> None:
    queue = [job("first", 2), job("second", 2), job("third", 2)]
    assert placed(queue, [host("ha", 4)]) == [("first", "ha"), ("second", "ha")]


def test_a_job_gets_all_its_slots_on_one_host_or_none() -> None:
    assert placed([job("four", 4)], [host("ha", 3), host("hb", 3)]) == []
    assert place_jobs([job("three", 3)], [host("ha", 3)], patience_s=0) == [
        Placement("three", (Share("ha", (0, 1, 2)),))
    ]


def test_the_fullest_host_that_can_hold_a_job_gets_it() -> None:
    hosts = [host("roomy", 8), host("full", 1), host("tight", 2)]
    assert placed([job("two", 2), job("eight", 8)], hosts) == [("two", "tight"), ("eight", "roomy")]


def test_a_gpu_comes_before_a_cpu_for_a_job_that_takes_either() -> None:
    hosts = [host("cpu", 2, kind="cpu"), host("gpu", 8)]
    assert placed([job("any", 2)], hosts) == [("any", "gpu")]
    assert placed([job("any", 2, device="cpu")], hosts) == [("any", "cpu")]


def test_a_device_that_is_asked_for_is_waited_for() -> None:
    assert placed([job("gpu", 1, device="gpu")], [host("cpu", 8, kind="cpu")]) == []
    assert placed([job("cpu", 1, device="cpu")], [host("gpu", 8)]) == []


def test_a_smaller_job_passes_a_blocked_one_for_a_while() -> None:
    queue = [job("large", 8, waited_s=PATIENCE_S), job("small", 1)]
    assert placed(queue, [host("ha", 2, capacity=8)]) == [("small", "ha")]


def test_nothing_passes_a_job_that_has_waited_too_long() -> None:
    queue = [job("large", 8, waited_s=PATIENCE_S + 1), job("small", 1), job("smaller", 1)]
    assert placed(queue, [host("ha", 2, capacity=8)]) == []


def test_what_comes_before_a_starving_job_still_goes() -> None:
    queue = [job("ahead", 1), job("large", 8, waited_s=PATIENCE_S + 1), job("behind", 1)]
    assert placed(queue, [host("ha", 2, capacity=8)]) == [("ahead", "ha")]


def test_a_starving_job_keeps_only_the_hosts_that_can_hold_it() -> None:
    queue = [job("large", 8, device="gpu", waited_s=PATIENCE_S + 1), job("small", 1), job("on-cpu", 1, device="cpu")]
    hosts = [host("large-gpu", 2, capacity=8), host("small-gpu", 1, capacity=4), host("cpu", 8, kind="cpu")]
    assert placed(queue, hosts) == [("small", "small-gpu"), ("on-cpu", "cpu")]


def test_a_job_that_no_host_can_ever_hold_stops_nobody() -> None:
    queue = [job("giant", 64, waited_s=1e6), job("small", 1)]
    assert placed(queue, [host("ha", 2, capacity=8)]) == [("small", "ha")]


def test_slots_are_taken_by_their_own_index() -> None:
    free = FreeSlots("ha", "gpu", (1, 4, 6), 8)
    assert place_jobs([job("a", 2), job("b", 1)], [free], patience_s=0) == [
        Placement("a", "ha", (1, 4)),
        Placement("b", "ha", (6,)),
    ]


def counted(gpus: int, fewest_gpus: int | None, *capacities: int, global_batch: int | None = None) -> int:
    """How many GPUs a job gets from hosts of these sizes, all of them free; 0 where it waits."""
    waiting = Waiting("j", gpus, "gpu", 0.0, fewest_gpus, global_batch)
    hosts = [host(f"h{size}", size) for size in capacities]
    hosts.append(host("cpu", 64, kind="cpu"))
    return sum(len(one.slots) for one in place_jobs([waiting], hosts, patience_s=0))


def test_a_restart_makes_do_with_fewer_when_no_host_has_so_many() -> None:
    assert counted(8, 2, 4, 6) == 6
    assert counted(8, 2, 4, 8) == 8
    assert counted(8, None, 4, 6) == 0
    assert counted(8, 8, 4, 6) == 0
    assert counted(8, 5, 4) == 0
    assert counted(8, 2) == 0


def test_fewer_gpus_still_divide_a_global_batch() -> None:
    assert counted(8, 1, 6, global_batch=64) == 4
    assert counted(9, 2, 8, global_batch=27) == 3
    assert counted(9, 4, 8, global_batch=27) == 0


def test_a_host_that_is_only_busy_is_waited_for() -> None:
    waiting = Waiting("j", 8, "auto", 0.0, fewest_gpus=2)
    assert place_jobs([waiting], [host("ha", 4, capacity=8)], patience_s=0) == []


HOSTS = st.lists(
    st.builds(
        lambda kind, free, busy: (kind, free, len(free) + busy),
        st.sampled_from(["gpu", "cpu"]),
        st.sets(st.integers(0, 15)),
        st.integers(0, 4),
    ),
    max_size=5,
).map(lambda found: [FreeSlots(f"h{i}", kind, tuple(sorted(free)), all_) for i, (kind, free, all_) in enumerate(found)])
QUEUE = st.lists(
    st.tuples(st.integers(1, 12), st.sampled_from(["auto", "gpu", "cpu"]), st.floats(0, 600)), max_size=20
).map(lambda found: [Waiting(f"j{i}", *one) for i, one in enumerate(found)])


@settings(deadline=None)
@given(QUEUE, HOSTS)
def test_no_slot_is_given_twice_and_no_job_half(queue: list[Waiting], hosts: list[FreeSlots]) -> None:
    free = {one.host: one for one in hosts}
    wanted = {one.job_id: one for one in queue}
    placements = place_jobs(queue, hosts, patience_s=PATIENCE_S)
    taken = Counter((one.host, index) for one in placements for index in one.slots)
    assert set(taken.values()) <= {1}
    assert len({one.job_id for one in placements}) == len(placements)
    for one in placements:
        assert len(one.slots) == wanted[one.job_id].gpus
        assert set(one.slots) <= set(free[one.host].indices)
        assert wanted[one.job_id].device in ("auto", free[one.host].kind)


@settings(deadline=None)
@given(QUEUE, HOSTS)
def test_a_starving_job_never_loses_a_slot_to_a_later_one(queue: list[Waiting], hosts: list[FreeSlots]) -> None:
    placements = {one.job_id: one for one in place_jobs(queue, hosts, patience_s=PATIENCE_S)}
    for position, starving in enumerate(queue):
        if starving.waited_s <= PATIENCE_S or starving.job_id in placements:
            continue
        could_hold = {
            one.host for one in hosts if starving.device in ("auto", one.kind) and one.capacity >= starving.gpus
        }
        later = [placements[one.job_id] for one in queue[position + 1 :] if one.job_id in placements]
        assert could_hold.isdisjoint(one.host for one in later)
