"""Where jobs are placed, which attempts are preempted, and which slots are reserved for blocked jobs."""

from dataclasses import replace
from typing import Any

import pytest

from jobs.scheduling.contenders import LiveAttempt, QueuedJob
from jobs.scheduling.decisions import Placement, Preemption, Share
from jobs.scheduling.nvlinks import Links
from jobs.scheduling.placement import RESERVATIONS, PlacementPass, place_jobs
from jobs.scheduling.slots import HostSlots, SlotClass
from tests.slot_classes import alike, class_slots
from tests.unit.jobs.scheduling.contending import job, live, order


def host(
    name: str, free: int, *, kind: str = "gpu", capacity: int | None = None, peers: str | None = "eth0"
) -> HostSlots:
    return alike(name, kind, free, capacity, peers)


def where(decided: PlacementPass) -> dict[str, dict[str, int]]:
    return {one.job_id: {share.host: len(share.slots) for share in one.shares} for one in decided.placements}


def placed(queue: list[QueuedJob], *hosts: HostSlots) -> dict[str, dict[str, int]]:
    return where(place_jobs(queue, hosts))


def test_job_goes_to_the_fullest_host_that_can_hold_it() -> None:
    queue = [job("two", 2), job("eight", 8)]
    assert placed(queue, host("roomy", 8), host("full", 1), host("tight", 2)) == {
        "two": {"tight": 2}, "eight": {"roomy": 8},
    }  # fmt: skip


def test_job_that_takes_either_device_waits_for_gpus_of_a_host_that_is_lost() -> None:
    """What it gets where all hosts are there: `test_placement_properties`."""
    cpus = host("cpu", 8, kind="cpu")
    assert where(place_jobs([job("any", 2)], [cpus], auto="gpu")) == {}
    assert placed([job("any", 2)], cpus) == {"any": {"cpu": 2}}


def test_pack_takes_the_fewest_hosts_and_among_them_the_fullest() -> None:
    hosts = [host("ha", 4), host("hb", 3), host("hc", 2), host("hd", 3)]
    assert placed([job("four", 4)], *hosts) == {"four": {"ha": 4}}
    assert placed([job("six", 6)], *hosts) == {"six": {"hb": 3, "hd": 3}}
    assert placed([job("eight", 8)], *hosts) == {"eight": {"ha": 2, "hb": 2, "hc": 2, "hd": 2}}


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


@pytest.mark.parametrize(
    ("gpus", "fewest_gpus", "capacities", "request_", "placed_on"),
    [
        (8, 2, (4, 6), {}, 6),
        (8, 2, (4, 8), {}, 8),
        (8, None, (4, 6), {}, 0),
        # in equal parts, among hosts that work together
        (12, 2, (4, 5), {"peers": "eth0"}, 8),
        (12, 2, (4, 5), {"peers": "eth0", "placement": "single_host"}, 5),
        # in parts that divide the global batch
        (8, 1, (6,), {"global_batch": 64}, 4),
        (9, 2, (8,), {"global_batch": 27}, 3),
        (9, 4, (8,), {"global_batch": 27}, 0),
    ],
)
def test_a_restart_takes_fewer_gpus_down_to_its_minimum_when_hosts_are_too_small(
    gpus: int, fewest_gpus: int | None, capacities: tuple[int, ...], request_: dict[str, Any], placed_on: int
) -> None:
    """The hosts are free. Those of several sizes work together if their job says so here."""
    peers = request_.get("peers")
    hosts = [host(f"h{number}", size, peers=peers) for number, size in enumerate(capacities)]
    fields = {key: value for key, value in request_.items() if key != "peers"}
    waiting = job("j", gpus, device="gpu", fewest_gpus=fewest_gpus, **fields)
    decided = place_jobs([waiting], [*hosts, host("cpu", 64, kind="cpu")])
    assert sum(one.gpus for one in decided.placements) == placed_on


def test_restart_waits_for_a_busy_host_instead_of_taking_fewer_gpus() -> None:
    assert placed([job("j", 8, fewest_gpus=2)], host("ha", 4, capacity=8)) == {}


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


def test_blocked_job_reserves_only_the_slots_it_needs() -> None:
    queue = [job("large", 6, device="gpu"), job("long", 2), job("longer", 1), job("on-cpu", 1, device="cpu")]
    hosts = [BUSY, host("small", 1, capacity=4, peers=None), host("cpu", 8, kind="cpu")]
    decided = place_jobs(queue, hosts, [live(1, {"ha": 6}, ends_in_s=10), live(2, {"small": 3}, ends_in_s=5)])
    assert where(decided) == {"long": {"ha": 2}, "longer": {"small": 1}, "on-cpu": {"cpu": 1}}
    assert {one.due_s for one in decided.placements} == {None}
    assert place_jobs(queue, hosts, [live(1, {"ha": 6}, ends_in_s=10)]).kept_for == {"ha": "large"}


def test_reservation_is_made_where_slots_come_free_first() -> None:
    hosts = [host("ha", 4, capacity=8, peers=None), host("hb", 4, capacity=8, peers=None)]
    busy = [live(1, {"ha": 4}, ends_in_s=50), live(2, {"hb": 4}, ends_in_s=20)]
    assert place_jobs([LARGE], hosts, busy).kept_for == {"hb": "large"}
    unknown = [replace(busy[0], ends_in_s=None), replace(busy[1], ends_in_s=None)]
    assert place_jobs([LARGE], hosts, unknown).kept_for == {"ha": "large"}  # the older attempt is assumed to end first


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


def preemptions_of(queue: list[QueuedJob], hosts: list[HostSlots], *attempts: LiveAttempt) -> list[Preemption]:
    return place_jobs(queue, hosts, attempts).preemptions


URGENT = job("urgent", 4, priority=90)
FULL = [host("ha", 0, capacity=4), host("hb", 0, capacity=4)]


def test_lowest_priority_is_preempted_first_and_among_equals_the_youngest() -> None:
    attempts = [live(1, {"ha": 4}, priority=10), live(2, {"hb": 4}, priority=20)]
    assert preemptions_of([URGENT], FULL, *attempts) == [Preemption("urgent", (1,))]
    attempts = [live(1, {"ha": 4}), live(2, {"hb": 4})]
    assert preemptions_of([URGENT], FULL, *attempts) == [Preemption("urgent", (2,))]


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


A100, H100 = ("gpu", "NVIDIA A100", 80), ("gpu", "NVIDIA H100", 94)


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


def test_a_job_that_may_mix_models_takes_one_if_that_needs_no_more_hosts() -> None:
    assert indices(mixed_host("ha", (A100, 1), (H100, 3)), a=job("a", 2, mixed_gpus=True)) == {"a": [1, 2]}
    hosts = [mixed_host("ha", (A100, 2), (H100, 2)), mixed_host("hb", (A100, 2))]
    assert placed([job("a", 4, mixed_gpus=True)], *hosts) == {"a": {"ha": 4}}
    three_kinds = mixed_host("ha", (A100, 1), (H100, 2), (("gpu", "T4", 16), 3))
    assert sorted(indices(three_kinds, a=job("a", 5, mixed_gpus=True))["a"]) == [1, 2, 3, 4, 5]


def test_slots_of_one_model_are_kept_and_others_are_not() -> None:
    mixed = mixed_host("ha", (A100, 4), (H100, 4), busy=2)
    busy = [LiveAttempt(1, order("0"), {slots_of("ha", A100): 2}, 100.0)]
    queue = [job("large", 4, gpu_model="a100"), job("long", 2), job("longer", 1)]
    decided = place_jobs(queue, [mixed], busy)
    assert slots_in(decided) == {"long": [("ha", 6), ("ha", 7)]}
    assert decided.kept_for == {"ha": "large"}
    assert dict(decided.reservations[0].shares) == {slots_of("ha", A100): 4}


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
