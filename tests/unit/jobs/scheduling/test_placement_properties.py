"""What holds of any queue on any hosts, and of a cluster as it goes on."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from jobs.scheduling.fitting import HostSlots, SlotRequest
from jobs.scheduling.placement import LiveAttempt, PlacementPass, QueuedJob, place_jobs

KINDS = st.sampled_from(["gpu", "cpu"])
HOSTS = st.lists(
    st.tuples(KINDS, st.sets(st.integers(0, 7), max_size=6), st.integers(0, 4), st.sampled_from([None, "a", "b"])),
    min_size=1,
    max_size=5,
).map(
    lambda found: [
        HostSlots(f"h{number}", kind, tuple(sorted(free)), len(free) + busy, peers)
        for number, (kind, free, busy, peers) in enumerate(found)
    ]
)
WISHES = st.builds(
    SlotRequest,
    gpus=st.integers(1, 12),
    device=st.sampled_from(["auto", "gpu", "cpu"]),
    placement=st.sampled_from(["pack", "single_host", "spread"]),
    last_hosts=st.lists(st.sampled_from(["h0", "h1", "h2", "gone"]), unique=True, max_size=2).map(tuple),
)
ESTIMATES = st.none() | st.integers(1, 20).map(float)


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]]:
    """A queue, hosts, and attempts that hold all their leased slots."""
    hosts = draw(HOSTS)
    priorities = st.integers(0, 3)
    attempts = []
    for number, one in enumerate(hosts):
        left = one.capacity - len(one.free)
        while left:
            held = draw(st.integers(1, left))
            left -= held
            order = (-draw(priorities), 0.0, f"a{number}.{left}")
            attempts.append(
                LiveAttempt(
                    len(attempts), order, {one.host: held}, draw(ESTIMATES), leaving=draw(st.booleans()),
                    overdue=draw(st.booleans()),
                )
            )  # fmt: skip
    queue = [
        QueuedJob(f"j{number}", (-draw(priorities), 1.0, f"j{number}"), request, draw(ESTIMATES))
        for number, request in enumerate(draw(st.lists(WISHES, max_size=12)))
    ]
    return sorted(queue, key=lambda job: job.order), hosts, attempts


def holds(request: SlotRequest, hosts: Sequence[HostSlots], free: Mapping[str, int]) -> bool:
    """Whether so many free slots hold a job, tried the long way."""
    for kind in ("gpu", "cpu"):
        for number in range(1, request.gpus + 1):
            if request.gpus % number or (number > 1 and request.placement == "single_host"):
                continue
            room = [
                one for one in hosts
                if one.kind == kind and request.device in ("auto", kind) and free[one.host] >= request.gpus // number
            ]  # fmt: skip
            together = Counter(one.peers for one in room if one.peers is not None)
            if (number == 1 and room) or max(together.values(), default=0) >= number:
                return True
    return False


@given(clusters())
def test_no_slot_is_given_twice_and_no_job_half(
    given_: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]],
) -> None:
    queue, hosts, attempts = given_
    by_name = {one.host: one for one in hosts}
    wanted = {one.job_id: one.request for one in queue}
    placements = place_jobs(queue, hosts, attempts).placements
    taken = Counter(slot for one in placements for slot in one.slots)
    assert set(taken.values()) <= {1}
    assert len({one.job_id for one in placements}) == len(placements)
    for one in placements:
        request, used = wanted[one.job_id], [by_name[share.host] for share in one.shares]
        assert one.gpus == request.gpus
        assert len({len(share.slots) for share in one.shares}) == 1
        assert len({host.host for host in used}) == len(used)
        assert all(set(share.slots) <= set(by_name[share.host].free) for share in one.shares)
        assert {host.kind for host in used} <= ({"gpu", "cpu"} if request.device == "auto" else {request.device})
        assert len({host.kind for host in used}) == 1
        assert len(used) == 1 or (request.placement != "single_host" and len({host.peers for host in used}) == 1)
        assert len(used) == 1 or used[0].peers is not None


@given(clusters())
def test_what_could_go_first_goes(given_: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]]) -> None:
    """The head of the queue is placed whenever it fits, and blocked only where it could fit one day."""
    queue, hosts, attempts = given_
    if not queue:
        return
    head, decided = queue[0], place_jobs(queue[:1], hosts, attempts)
    free = {one.host: len(one.free) for one in hosts}
    capacity = {one.host: one.capacity for one in hosts}
    assert bool(decided.placements) == holds(head.request, hosts, free)
    assert bool(decided.placements or decided.reservations) == holds(head.request, hosts, capacity)


@settings(max_examples=300)
@given(clusters())
def test_only_those_make_room_that_must(given_: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]]) -> None:
    queue, hosts, attempts = given_
    if not queue:
        return
    head, decided = queue[0], place_jobs(queue[:1], hosts, attempts)
    soon = Counter({one.host: len(one.free) for one in hosts})
    for one in attempts:
        soon.update(one.slots if one.leaving else {})
    may = [
        one
        for one in attempts
        if not one.leaving and (one.order[0] > head.order[0] or (one.overdue and one.order > head.order))
    ]
    asked = {number for one in decided.preemptions for number in one.attempt_ids}
    assert asked <= {one.attempt_id for one in may}

    def helps(leaving: set[int]) -> bool:
        free = Counter(soon)
        for one in may:
            free.update(one.slots if one.attempt_id in leaving else {})
        return holds(head.request, hosts, free)

    if asked:
        assert not helps(set())
        assert helps(asked)
        assert not any(helps(asked - {one}) for one in asked)
    elif not decided.placements:
        assert helps(set()) or not helps({one.attempt_id for one in may})


@dataclass
class Cluster:
    """A cluster in time: jobs come, are placed and end."""

    hosts: list[HostSlots]
    known: bool  # whether one knows how long jobs take
    now: int = 0
    running: dict[int, tuple[QueuedJob, Mapping[str, int], int]] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # by when the first blocked job starts at the latest

    def look(self, queue: list[QueuedJob], durations: Mapping[str, int]) -> PlacementPass:
        """One pass, and what it places begins."""
        self.running = {number: one for number, one in self.running.items() if one[2] > self.now}
        used = Counter[str]()
        for _, slots, _ in self.running.values():
            used.update(slots)
        hosts = [
            HostSlots(one.host, one.kind, one.free[used[one.host] :], one.capacity, one.peers) for one in self.hosts
        ]
        attempts = [
            LiveAttempt(number, job.order, slots, float(end - self.now) if self.known else None)
            for number, (job, slots, end) in self.running.items()
        ]
        decided = place_jobs(queue, hosts, attempts)
        jobs = {job.job_id: job for job in queue}
        for one in decided.placements:
            slots = {share.host: len(share.slots) for share in one.shares}
            end = self.now + durations[one.job_id]
            self.running[len(self.started)] = jobs[one.job_id], slots, end
            self.started[one.job_id] = self.now
        return decided


@settings(max_examples=300)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(
        st.tuples(
            st.integers(0, 6), st.integers(1, 9), st.integers(1, 8), st.sampled_from(["pack", "single_host", "spread"])
        ),
        min_size=4,
        max_size=30,
    ),
    st.booleans(),
)
def test_a_blocked_job_starts_when_it_was_foreseen_and_all_are_served(
    sizes: list[int], jobs: list[tuple[int, int, int, str]], known: bool
) -> None:
    """With estimates that hold: by the time foreseen. Without: when what ran as it became the first has ended."""
    cluster = Cluster([HostSlots(f"h{n}", "gpu", tuple(range(size)), size, "a") for n, size in enumerate(sizes)], known)
    durations = {f"j{number:02}": lasts for number, (_, _, lasts, _) in enumerate(jobs)}
    arrivals: dict[int, list[QueuedJob]] = {}
    at = 0
    for number, (after, gpus, lasts, placement) in enumerate(jobs):
        at += after
        estimate_s = float(lasts) if known else None
        job = QueuedJob(
            f"j{number:02}", (-50, float(at), f"j{number:02}"), SlotRequest(gpus, placement=placement), estimate_s
        )
        arrivals.setdefault(at, []).append(job)
    queue: list[QueuedJob] = []
    for now in range(at + sum(durations.values()) + 1):
        cluster.now = now
        queue += arrivals.get(now, [])
        decided = cluster.look(queue, durations)
        queue = [job for job in queue if job.job_id not in cluster.started]
        for first in decided.reservations[:1]:
            last_end = max(end for _, _, end in cluster.running.values())
            cluster.promised.setdefault(first.job_id, now + first.at_s if known else last_end)
    for job_id, latest in cluster.promised.items():
        assert cluster.started[job_id] <= latest
    capacity = {one.host: one.capacity for one in cluster.hosts}
    assert [job.job_id for job in queue if holds(job.request, cluster.hosts, capacity)] == []
