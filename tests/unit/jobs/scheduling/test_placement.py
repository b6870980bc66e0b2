"""Where jobs are placed, which attempts are preempted, and which slots are reserved for blocked jobs."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.contenders import LiveAttempt, Order, QueuedJob
from jobs.scheduling.decisions import Placement, Preemption, Share
from jobs.scheduling.nvlinks import Links
from jobs.scheduling.placement import RESERVATIONS, PlacementPass, place_jobs
from jobs.scheduling.slots import HostSlots, SlotClass, SlotRequest
from tests.slot_classes import alike, class_slots


def host(
    name: str, free: int, *, kind: str = "gpu", capacity: int | None = None, peers: str | None = "eth0"
) -> HostSlots:
    return alike(name, kind, free, capacity, peers)


def job(name: str, gpus: int, *, priority: int = 50, estimate_s: float | None = None, **request: Any) -> QueuedJob:
    return QueuedJob(name, order(name, priority), SlotRequest(gpus, **request), estimate_s)


def order(name: str, priority: int = 50) -> Order:
    """Jobs of one priority are sorted by name, as if the first in the alphabet were the oldest."""
    return (-priority, 0.0, name)


def live(
    number: int, slots: dict[str, int], *, priority: int = 50, name: str = "0", kind: str = "gpu", **known: Any
) -> LiveAttempt:
    counts = {SlotClass(host, kind): count for host, count in slots.items()}
    return LiveAttempt(number, order(name, priority), counts, **known)


def where(decided: PlacementPass) -> dict[str, dict[str, int]]:
    return {one.job_id: {share.host: len(share.slots) for share in one.shares} for one in decided.placements}


def placed(queue: list[QueuedJob], *hosts: HostSlots) -> dict[str, dict[str, int]]:
    return where(place_jobs(queue, hosts))


def test_jobs_are_placed_in_queue_order() -> None:
    queue = [job("first", 2), job("second", 2), job("third", 2)]
    assert placed(queue, host("ha", 4)) == {"first": {"ha": 2}, "second": {"ha": 2}}


def test_a_job_gets_all_its_slots_or_none() -> None:
    assert placed([job("four", 4)], host("ha", 3), host("hb", 0, capacity=4)) == {}
    share = Share("ha", (0, 1, 2), ("gpu",) * 3)
    assert place_jobs([job("three", 3)], [host("ha", 3)]).placements == [Placement("three", (share,))]


def test_job_goes_to_the_fullest_host_that_can_hold_it() -> None:
    queue = [job("two", 2), job("eight", 8)]
    assert placed(queue, host("roomy", 8), host("full", 1), host("tight", 2)) == {
        "two": {"tight": 2}, "eight": {"roomy": 8},
    }  # fmt: skip


def test_job_that_takes_either_device_gets_gpus_first() -> None:
    hosts = [host("cpu", 2, kind="cpu"), host("gpu", 8)]
    assert placed([job("any", 2)], *hosts) == {"any": {"gpu": 2}}
    assert placed([job("any", 2, device="cpu")], *hosts) == {"any": {"cpu": 2}}
    assert placed([job("any", 4)], host("cpu", 8, kind="cpu"), host("ga", 2), host("gb", 2)) == {
        "any": {"ga": 2, "gb": 2}
    }


def test_job_that_takes_either_device_waits_for_gpus_that_are_busy_or_out_of_reach() -> None:
    hosts = [host("cpu", 8, kind="cpu"), host("gpu", 1, capacity=2)]
    assert placed([job("any", 2)], *hosts) == {}
    assert placed([job("any", 4)], *hosts) == {}
    assert where(place_jobs([job("any", 2)], hosts[:1], auto="gpu")) == {}  # the host with the GPUs is lost
    assert placed([job("any", 2)], hosts[0]) == {"any": {"cpu": 2}}


def test_job_never_mixes_gpu_and_cpu_slots() -> None:
    assert placed([job("four", 4)], host("cpu", 2, kind="cpu"), host("gpu", 2)) == {}


def test_job_waits_for_the_device_it_asks_for() -> None:
    assert placed([job("gpu", 1, device="gpu")], host("cpu", 8, kind="cpu")) == {}
    assert placed([job("cpu", 1, device="cpu")], host("gpu", 8)) == {}


def test_pack_takes_the_fewest_hosts_and_among_them_the_fullest() -> None:
    hosts = [host("ha", 4), host("hb", 3), host("hc", 2), host("hd", 3)]
    assert placed([job("four", 4)], *hosts) == {"four": {"ha": 4}}
    assert placed([job("six", 6)], *hosts) == {"six": {"hb": 3, "hd": 3}}
    assert placed([job("eight", 8)], *hosts) == {"eight": {"ha": 2, "hb": 2, "hc": 2, "hd": 2}}


def test_job_takes_the_same_number_of_slots_on_each_host() -> None:
    assert placed([job("five", 5)], host("ha", 3), host("hb", 3)) == {}
    assert placed([job("nine", 9)], host("ha", 3), host("hb", 3), host("hc", 4)) == {
        "nine": {"ha": 3, "hb": 3, "hc": 3}
    }


def test_job_spans_only_hosts_that_can_work_together() -> None:
    hosts = [
        host("ha", 2, peers="eth0"),
        host("hb", 2, peers="ib0"),
        host("hc", 2, peers=None),
        host("hd", 2, peers=None),
    ]
    assert placed([job("four", 4)], *hosts) == {}
    assert placed([job("four", 4)], *hosts, host("he", 2, peers="ib0")) == {"four": {"hb": 2, "he": 2}}
    assert placed([job("two", 2)], hosts[2]) == {"two": {"hc": 2}}


def test_single_host_job_waits_until_one_host_has_room() -> None:
    hosts = [host("ha", 2, capacity=4), host("hb", 2)]
    assert placed([job("four", 4, placement="single_host")], *hosts) == {}
    assert placed([job("two", 2, placement="single_host")], *hosts) == {"two": {"ha": 2}}


def test_spread_takes_the_most_hosts_and_among_them_the_emptiest() -> None:
    hosts = [host("ha", 1), host("hb", 4), host("hc", 3), host("hd", 2)]
    assert placed([job("two", 2, placement="spread")], *hosts) == {"two": {"hb": 1, "hc": 1}}
    assert placed([job("four", 4, placement="spread")], *hosts) == {"four": {"ha": 1, "hb": 1, "hc": 1, "hd": 1}}
    assert placed([job("six", 6, placement="spread")], *hosts) == {"six": {"hb": 2, "hc": 2, "hd": 2}}
    assert placed([job("one", 1, placement="spread")], *hosts) == {"one": {"hb": 1}}


def test_restart_returns_to_its_last_hosts_if_that_needs_no_more_hosts() -> None:
    def again(*last: str, gpus: int = 2, placement: str = "pack") -> list[str]:
        waiting = job("again", gpus, last_hosts=last, placement=placement)
        (one,) = place_jobs([waiting], [host("ha", 2), host("hb", 4), host("hc", 4), host("hd", 1)]).placements
        return [share.host for share in one.shares]

    assert again() == ["ha"]
    assert again("hb") == ["hb"]
    assert again("hd") == ["ha"]  # one host with room is better than the last host with another one
    assert again("hc", "hb", gpus=8) == ["hc", "hb"]  # the last lead host is the lead again
    assert again("hc", gpus=8) == ["hc", "hb"]
    assert again("hc", placement="spread") == ["hc", "hb"]


def test_placement_uses_the_indices_of_the_free_slots() -> None:
    free = alike("ha", "gpu", (1, 4, 6), 8)
    assert place_jobs([job("a", 2), job("b", 1)], [free]).placements == [
        Placement("a", (Share("ha", (1, 4), ("gpu", "gpu")),)),
        Placement("b", (Share("ha", (6,), ("gpu",)),)),
    ]


def placed_gpus(gpus: int, fewest_gpus: int | None, *capacities: int, **request: Any) -> int:
    """How many GPUs a job gets from hosts of these sizes, all of them free; 0 where it waits."""
    hosts = [host(f"h{number}", size, peers=request.get("peers")) for number, size in enumerate(capacities)]
    hosts.append(host("cpu", 64, kind="cpu"))
    request = {key: value for key, value in request.items() if key != "peers"}
    waiting = job("j", gpus, device="gpu", fewest_gpus=fewest_gpus, **request)
    return sum(one.gpus for one in place_jobs([waiting], hosts).placements)


def test_restart_takes_fewer_gpus_down_to_its_minimum_when_hosts_are_too_small() -> None:
    assert placed_gpus(8, 2, 4, 6) == 6
    assert placed_gpus(8, 2, 4, 8) == 8
    assert placed_gpus(8, None, 4, 6) == 0
    assert placed_gpus(8, 8, 4, 6) == 0
    assert placed_gpus(8, 5, 4) == 0
    assert placed_gpus(8, 2) == 0


def test_fewer_gpus_are_divided_equally_among_hosts_that_work_together() -> None:
    assert placed_gpus(12, 2, 4, 5, peers="eth0") == 8
    assert placed_gpus(12, 2, 4, 5, placement="single_host", peers="eth0") == 5
    assert placed_gpus(12, 2, 3, 4, 3, peers="eth0") == 9


def test_fewer_gpus_still_divide_a_global_batch() -> None:
    assert placed_gpus(8, 1, 6, global_batch=64) == 4
    assert placed_gpus(9, 2, 8, global_batch=27) == 3
    assert placed_gpus(9, 4, 8, global_batch=27) == 0


def test_restart_waits_for_a_busy_host_instead_of_taking_fewer_gpus() -> None:
    waiting = job("j", 8, fewest_gpus=2)
    assert placed([waiting], host("ha", 4, capacity=8)) == {}


LARGE = job("large", 8, estimate_s=50.0)
LARGE_FOR_EVER = job("large", 8)
BUSY = host("ha", 2, capacity=8)


@pytest.mark.parametrize(
    ("ends_in_s", "estimate_s", "due_s"),
    [(100, 100, 100), (100, 20, 100), (100, 101, None), (100, None, None), (None, 1, None), (0, 1, None)],
)  # fmt: skip
def test_job_passes_a_blocked_job_only_if_it_does_not_delay_it(
    ends_in_s: float | None, estimate_s: float | None, due_s: float | None
) -> None:
    passing = job("passing", 2, estimate_s=estimate_s)
    decided = place_jobs([LARGE, passing], [BUSY], [live(1, {"ha": 6}, ends_in_s=ends_in_s)])
    assert [(one.job_id, one.due_s) for one in decided.placements] == ([] if due_s is None else [("passing", due_s)])
    assert decided.kept_for == {"ha": "large"}


def test_jobs_ahead_of_a_blocked_job_still_start() -> None:
    decided = place_jobs([job("ahead", 1), LARGE, job("behind", 1)], [BUSY], [live(1, {"ha": 6})])
    assert where(decided) == {"ahead": {"ha": 1}}


def test_blocked_job_reserves_only_the_slots_it_needs() -> None:
    queue = [job("large", 6, device="gpu"), job("long", 2), job("longer", 1), job("on-cpu", 1, device="cpu")]
    hosts = [BUSY, host("small", 1, capacity=4, peers=None), host("cpu", 8, kind="cpu")]
    decided = place_jobs(queue, hosts, [live(1, {"ha": 6}, ends_in_s=10), live(2, {"small": 3}, ends_in_s=5)])
    assert where(decided) == {"long": {"ha": 2}, "longer": {"small": 1}, "on-cpu": {"cpu": 1}}
    assert {one.due_s for one in decided.placements} == {None}
    assert place_jobs(queue, hosts, [live(1, {"ha": 6}, ends_in_s=10)]).kept_for == {"ha": "large"}


def test_slots_beyond_a_reservation_are_given_only_once() -> None:
    queue = [job("large", 6), job("m", 1), job("n", 1), job("o", 1), job("short", 1, estimate_s=10)]
    decided = place_jobs(queue, [host("ha", 4, capacity=8)], [live(1, {"ha": 4}, ends_in_s=10)])
    assert [(one.job_id, one.due_s) for one in decided.placements] == [("m", None), ("n", None), ("short", 10)]


def test_reservation_is_made_where_slots_come_free_first() -> None:
    hosts = [host("ha", 4, capacity=8, peers=None), host("hb", 4, capacity=8, peers=None)]
    busy = [live(1, {"ha": 4}, ends_in_s=50), live(2, {"hb": 4}, ends_in_s=20)]
    assert place_jobs([LARGE], hosts, busy).kept_for == {"hb": "large"}
    unknown = [replace(busy[0], ends_in_s=None), replace(busy[1], ends_in_s=None)]
    assert place_jobs([LARGE], hosts, unknown).kept_for == {"ha": "large"}  # the older attempt is assumed to end first


def test_reservations_count_placements_of_the_same_pass() -> None:
    queue = [job("a", 8, estimate_s=30), LARGE, job("passing", 2, estimate_s=30), job("long", 2, estimate_s=31)]
    hosts = [host("ha", 8, peers=None), host("hb", 2, capacity=8, peers=None)]
    decided = place_jobs(queue, hosts, [live(1, {"hb": 6}, ends_in_s=30)])
    assert where(decided) == {"a": {"ha": 8}, "passing": {"hb": 2}}
    assert decided.reservations[0].at_s == 30


def test_first_blocked_jobs_get_reservations_in_turn() -> None:
    queue = [job(f"large{number}", 8, estimate_s=10) for number in range(RESERVATIONS + 1)]
    decided = place_jobs(queue, [host("ha", 1, capacity=8)], [live(1, {"ha": 7}, ends_in_s=5)])
    assert [one.at_s for one in decided.reservations] == [5 + 10 * number for number in range(RESERVATIONS)]
    assert decided.kept_for == {"ha": "large0"}


def test_job_whose_start_is_unknown_reserves_nothing_on_reserved_hosts() -> None:
    queue = [LARGE_FOR_EVER, job("larger", 8), job("elsewhere", 4, device="cpu"), job("short", 1, estimate_s=5)]
    hosts = [host("ha", 1, capacity=8), host("hc", 1, capacity=4, kind="cpu")]
    decided = place_jobs(queue, hosts, [live(1, {"ha": 7}, ends_in_s=5), live(2, {"hc": 3}, kind="cpu")])
    assert decided.kept_for == {"ha": "large", "hc": "elsewhere"}
    assert where(decided) == {"short": {"ha": 1}}


def test_a_job_that_no_hosts_can_hold_does_not_block_others() -> None:
    assert placed([job("giant", 64), job("small", 1)], host("ha", 2, capacity=8)) == {"small": {"ha": 1}}
    assert placed([job("odd", 7), job("small", 1)], host("ha", 2, capacity=4), host("hb", 2, capacity=4)) == {
        "small": {"ha": 1}
    }


def preemptions_of(queue: list[QueuedJob], hosts: list[HostSlots], *attempts: LiveAttempt) -> list[Preemption]:
    return place_jobs(queue, hosts, attempts).preemptions


URGENT = job("urgent", 4, priority=90)
FULL = [host("ha", 0, capacity=4), host("hb", 0, capacity=4)]


def test_lowest_priority_is_preempted_first_and_among_equals_the_youngest() -> None:
    attempts = [live(1, {"ha": 4}, priority=10), live(2, {"hb": 4}, priority=20)]
    assert preemptions_of([URGENT], FULL, *attempts) == [Preemption("urgent", (1,))]
    attempts = [live(1, {"ha": 4}), live(2, {"hb": 4})]
    assert preemptions_of([URGENT], FULL, *attempts) == [Preemption("urgent", (2,))]


def test_only_attempts_of_lower_priority_are_preempted() -> None:
    attempts = [live(1, {"ha": 4}, priority=90), live(2, {"hb": 4}, priority=91)]
    assert preemptions_of([URGENT], FULL, *attempts) == []


def test_no_attempt_is_preempted_without_need() -> None:
    hosts = [host("ha", 1, capacity=4, peers=None), host("hb", 0, capacity=4, peers=None)]
    attempts = [
        live(1, {"hb": 1}, priority=1),
        live(2, {"ha": 1}, priority=2),
        live(3, {"ha": 2}, priority=3),
        live(4, {"hb": 3}),
    ]
    assert preemptions_of([URGENT], hosts, *attempts) == [Preemption("urgent", (2, 3))]
    assert preemptions_of([job("urgent", 3, priority=90)], hosts, *attempts) == [Preemption("urgent", (3,))]


def test_no_attempt_is_preempted_for_a_job_that_still_would_not_fit() -> None:
    attempts = [live(1, {"ha": 2}, priority=10), live(2, {"ha": 2}, priority=90), live(3, {}, priority=10)]
    alone = [host("ha", 0, capacity=4)]
    assert preemptions_of([job("urgent", 3, priority=90)], alone, *attempts) == []
    assert preemptions_of([job("giant", 5, priority=90)], alone, *attempts) == []


def test_no_attempt_is_preempted_if_leaving_attempts_free_enough_slots() -> None:
    attempts = [live(1, {"ha": 4}, priority=99, leaving=True), live(2, {"hb": 4}, priority=10)]
    decided = place_jobs([URGENT, job("later", 4, priority=80)], FULL, attempts)
    assert decided.preemptions == [Preemption("later", (2,))]
    assert decided.kept_for == {"ha": "urgent", "hb": "later"}


def test_slots_freed_by_preemption_go_to_the_job_that_needs_them() -> None:
    hosts = [host("ha", 2, capacity=4), host("hb", 0, capacity=4)]
    attempts = [live(1, {"ha": 2}, priority=10), live(2, {"hb": 4}, priority=10, leaving=True)]
    queue = [URGENT, job("urgent2", 4, priority=90), job("short", 1, estimate_s=1.0), job("long", 1)]
    decided = place_jobs(queue, hosts, attempts)
    assert decided.preemptions == [Preemption("urgent2", (1,))]
    assert decided.placements == []


def test_overdue_attempt_is_preempted_for_jobs_that_it_passed() -> None:
    late = live(1, {"ha": 4}, name="b", overdue=True)
    alone = [host("ha", 0, capacity=4)]
    assert preemptions_of([job("a", 4)], alone, late) == [Preemption("a", (1,))]
    assert preemptions_of([job("c", 4)], alone, late) == []  # the attempt is ahead of c
    assert preemptions_of([job("a", 4)], alone, replace(late, overdue=False)) == []


A100, A100_40, H100, CPU = ("gpu", "NVIDIA A100", 80), ("gpu", "NVIDIA A100", 40), ("gpu", "NVIDIA H100", 94), ("cpu",)


def mixed_host(name: str, *groups: tuple[tuple[Any, ...], int], busy: int = 0, links: Links | None = None) -> HostSlots:
    """A host with so many slots of each of these kinds, by index. The first `busy` slots of each are leased."""
    classes, first = [], 0
    for kind, count in groups:
        classes.append(class_slots(slots_of(name, kind), range(first + busy, first + count), count))
        first += count
    return HostSlots(name, tuple(classes), "eth0", links)


def slots_of(name: str, kind: tuple[Any, ...]) -> SlotClass:
    return SlotClass(name, kind[0], *kind[1:2], *(gb * 10**9 for gb in kind[2:]))


def slots_in(decided: PlacementPass) -> dict[str, list[tuple[str, int]]]:
    return {one.job_id: one.slots for one in decided.placements}


def indices(*hosts: HostSlots, **jobs: QueuedJob) -> dict[str, list[int]]:
    """The indices of the slots that each job gets, if all are on one host."""
    return {name: [index for _, index in slots] for name, slots in slots_in(place_jobs(jobs.values(), hosts)).items()}


def test_a_job_never_mixes_models_unless_it_may() -> None:
    two_and_two = mixed_host("ha", (A100, 2), (H100, 2))
    assert indices(two_and_two, a=job("a", 4)) == {}
    assert indices(two_and_two, a=job("a", 4, mixed_gpus=True)) == {"a": [0, 1, 2, 3]}
    assert indices(two_and_two, a=job("a", 2), b=job("b", 2)) == {"a": [0, 1], "b": [2, 3]}
    over_hosts = [mixed_host("ha", (A100, 2), (H100, 1)), mixed_host("hb", (H100, 2))]
    assert placed([job("a", 4)], *over_hosts) == {}
    assert placed([job("a", 2, placement="spread")], *over_hosts) == {"a": {"ha": 1, "hb": 1}}
    assert slots_in(place_jobs([job("a", 2, placement="spread")], over_hosts)) == {"a": [("ha", 2), ("hb", 0)]}
    assert placed([job("a", 4, mixed_gpus=True)], *over_hosts) == {"a": {"ha": 2, "hb": 2}}


def test_a_job_that_may_mix_models_takes_one_if_that_needs_no_more_hosts() -> None:
    assert indices(mixed_host("ha", (A100, 1), (H100, 3)), a=job("a", 2, mixed_gpus=True)) == {"a": [1, 2]}
    hosts = [mixed_host("ha", (A100, 2), (H100, 2)), mixed_host("hb", (A100, 2))]
    assert placed([job("a", 4, mixed_gpus=True)], *hosts) == {"a": {"ha": 4}}
    three_kinds = mixed_host("ha", (A100, 1), (H100, 2), (("gpu", "T4", 16), 3))
    assert sorted(indices(three_kinds, a=job("a", 5, mixed_gpus=True))["a"]) == [1, 2, 3, 4, 5]


def test_a_job_gets_only_the_model_and_the_memory_that_it_asks_for() -> None:
    both = mixed_host("ha", (A100_40, 2), (A100, 2), (H100, 2))
    assert indices(both, a=job("a", 2, gpu_model="h100")) == {"a": [4, 5]}
    assert indices(both, a=job("a", 2, gpu_memory_gb=80.0)) == {"a": [2, 3]}
    assert indices(both, a=job("a", 2, gpu_model="nvidia a", gpu_memory_gb=41.5)) == {"a": [2, 3]}
    assert indices(both, a=job("a", 4, gpu_model="A100")) == {"a": [0, 1, 2, 3]}  # one model with two sizes of memory
    assert indices(both, a=job("a", 4, gpu_memory_gb=80.0)) == {}
    assert indices(both, a=job("a", 4, gpu_memory_gb=80.0, mixed_gpus=True)) == {"a": [2, 3, 4, 5]}
    assert indices(both, a=job("a", 1, gpu_model="b200"), b=job("b", 1, gpu_memory_gb=94.1)) == {}
    unknown = mixed_host("ha", (("gpu", "NVIDIA A100"), 2))
    assert indices(unknown, a=job("a", 1, gpu_memory_gb=0.1), b=job("b", 1, gpu_model="a100")) == {"b": [0]}


def test_a_job_that_chooses_gpus_takes_no_cpu_slots_and_others_take_no_gpus() -> None:
    beside = mixed_host("ha", (A100, 2), (CPU, 4))
    assert indices(beside, a=job("a", 2), b=job("b", 3, device="cpu")) == {"a": [0, 1], "b": [2, 3, 4]}
    assert indices(beside, a=job("a", 4), b=job("b", 4, mixed_gpus=True), c=job("c", 1)) == {"c": [0]}
    for choice in ({"gpu_model": "a100"}, {"gpu_memory_gb": 1.0}, {"mixed_gpus": True}):
        assert placed([job("a", 1, **choice)], host("hb", 4, kind="cpu")) == {}


def test_slots_of_one_model_are_kept_and_others_are_not() -> None:
    mixed = mixed_host("ha", (A100, 4), (H100, 4), busy=2)
    busy = [LiveAttempt(1, order("0"), {slots_of("ha", A100): 2}, 100.0)]
    queue = [job("large", 4, gpu_model="a100"), job("long", 2), job("longer", 1)]
    decided = place_jobs(queue, [mixed], busy)
    assert slots_in(decided) == {"long": [("ha", 6), ("ha", 7)]}
    assert decided.kept_for == {"ha": "large"}
    assert dict(decided.reservations[0].shares) == {slots_of("ha", A100): 4}


def test_attempts_on_another_model_are_not_preempted() -> None:
    full = mixed_host("ha", (A100, 2), (H100, 2), busy=2)
    cheap = LiveAttempt(1, order("0", 1), {slots_of("ha", A100): 2})
    costly = LiveAttempt(2, order("0", 2), {slots_of("ha", H100): 2})
    urgent = job("urgent", 1, priority=90, gpu_model="h100")
    assert preemptions_of([urgent], [full], cheap, costly) == [Preemption("urgent", (2,))]
    assert preemptions_of([urgent], [full], cheap, replace(costly, order=order("0", 95))) == []
    assert preemptions_of([job("urgent", 4, priority=90)], [full], cheap, costly) == []
    both = job("urgent", 4, priority=90, mixed_gpus=True)
    assert [sorted(one.attempt_ids) for one in preemptions_of([both], [full], cheap, costly)] == [[1, 2]]


def test_a_restart_takes_fewer_gpus_of_one_model() -> None:
    hosts = [mixed_host("ha", (A100, 3), (H100, 2))]
    assert placed([job("a", 4, fewest_gpus=1)], *hosts) == {"a": {"ha": 3}}
    assert placed([job("a", 4, fewest_gpus=1, gpu_model="h100")], *hosts) == {"a": {"ha": 2}}
    assert placed([job("a", 6, fewest_gpus=4, mixed_gpus=True)], *hosts) == {"a": {"ha": 5}}


JOINED = Links({(0, 1): 4, (2, 3): 4})


def test_pack_prefers_joined_cards_and_hosts_that_have_them() -> None:
    def on(*hosts: HostSlots, **request: Any) -> list[tuple[str, int]]:
        return slots_in(place_jobs([job("j", 2, **request)], hosts))["j"]

    broken = alike("ha", "gpu", (0, 2), links=JOINED)
    roomy = alike("hb", "gpu", (1, 2, 3), links=JOINED)
    assert on(broken, roomy) == [("hb", 2), ("hb", 3)]
    assert on(broken, roomy, placement="single_host") == [("hb", 2), ("hb", 3)]
    assert on(broken, roomy, last_hosts=("ha",)) == [("ha", 0), ("ha", 2)]
    assert on(broken, alike("hb", "gpu", 3)) == [("ha", 0), ("ha", 2)]  # neither is joined: the fullest
    single = [job("a", 1), job("b", 2), job("c", 1)]
    decided = place_jobs(single, [alike("ha", "gpu", (0, 1, 2, 3, 4), links=JOINED)])
    assert slots_in(decided) == {"a": [("ha", 4)], "b": [("ha", 0), ("ha", 1)], "c": [("ha", 2)]}
