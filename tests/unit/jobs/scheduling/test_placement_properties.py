"""Properties of any queue on any hosts, and of a cluster over time."""

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
    for number, host in enumerate(hosts):
        leased = host.capacity - len(host.free)
        while leased:
            gpus = draw(st.integers(1, leased))
            leased -= gpus
            order = (-draw(priorities), 0.0, f"a{number}.{leased}")
            attempts.append(
                LiveAttempt(
                    len(attempts), order, {host.host: gpus}, draw(ESTIMATES), leaving=draw(st.booleans()),
                    overdue=draw(st.booleans()),
                )
            )  # fmt: skip
    queue = [
        QueuedJob(f"j{number}", (-draw(priorities), 1.0, f"j{number}"), request, draw(ESTIMATES))
        for number, request in enumerate(draw(st.lists(WISHES, max_size=12)))
    ]
    return sorted(queue, key=lambda job: job.order), hosts, attempts


def holds(request: SlotRequest, hosts: Sequence[HostSlots], free: Mapping[str, int]) -> bool:
    """Whether these free slots hold a job. Tries each kind and each number of hosts."""
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
def test_no_slot_is_leased_twice_and_no_job_is_half_placed(
    queue_and_cluster: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]],
) -> None:
    queue, hosts, attempts = queue_and_cluster
    by_name = {host.host: host for host in hosts}
    requests = {job.job_id: job.request for job in queue}
    placements = place_jobs(queue, hosts, attempts).placements
    slot_counts = Counter(slot for placement in placements for slot in placement.slots)
    assert set(slot_counts.values()) <= {1}
    assert len({placement.job_id for placement in placements}) == len(placements)
    for placement in placements:
        request, used_hosts = requests[placement.job_id], [by_name[share.host] for share in placement.shares]
        assert placement.gpus == request.gpus
        assert len({len(share.slots) for share in placement.shares}) == 1
        assert len({host.host for host in used_hosts}) == len(used_hosts)
        assert all(set(share.slots) <= set(by_name[share.host].free) for share in placement.shares)
        assert {host.kind for host in used_hosts} <= ({"gpu", "cpu"} if request.device == "auto" else {request.device})
        assert len({host.kind for host in used_hosts}) == 1
        assert len(used_hosts) == 1 or (
            request.placement != "single_host" and len({host.peers for host in used_hosts}) == 1
        )
        assert len(used_hosts) == 1 or used_hosts[0].peers is not None


@given(clusters())
def test_the_head_of_the_queue_is_placed_whenever_it_fits(
    queue_and_cluster: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]],
) -> None:
    """The head of the queue is placed if it fits now. Else it gets a reservation if it could ever fit."""
    queue, hosts, attempts = queue_and_cluster
    if not queue:
        return
    head, decided = queue[0], place_jobs(queue[:1], hosts, attempts)
    free = {one.host: len(one.free) for one in hosts}
    capacity = {one.host: one.capacity for one in hosts}
    assert bool(decided.placements) == holds(head.request, hosts, free)
    assert bool(decided.placements or decided.reservations) == holds(head.request, hosts, capacity)


@settings(max_examples=300)
@given(clusters())
def test_only_needed_attempts_are_preempted(
    queue_and_cluster: tuple[list[QueuedJob], list[HostSlots], list[LiveAttempt]],
) -> None:
    queue, hosts, attempts = queue_and_cluster
    if not queue:
        return
    head, decision = queue[0], place_jobs(queue[:1], hosts, attempts)
    free_soon = Counter({host.host: len(host.free) for host in hosts})
    for attempt in attempts:
        free_soon.update(attempt.slots if attempt.leaving else {})
    preemptible = [
        attempt
        for attempt in attempts
        if not attempt.leaving
        and (attempt.order[0] > head.order[0] or (attempt.overdue and attempt.order > head.order))
    ]
    preempted = {number for preemption in decision.preemptions for number in preemption.attempt_ids}
    assert preempted <= {attempt.attempt_id for attempt in preemptible}

    def makes_room(leaving: set[int]) -> bool:
        free = Counter(free_soon)
        for attempt in preemptible:
            free.update(attempt.slots if attempt.attempt_id in leaving else {})
        return holds(head.request, hosts, free)

    if preempted:
        assert not makes_room(set())
        assert makes_room(preempted)
        assert not any(makes_room(preempted - {number}) for number in preempted)
    elif not decision.placements:
        assert makes_room(set()) or not makes_room({attempt.attempt_id for attempt in preemptible})


@dataclass
class Cluster:
    """A cluster over time: jobs arrive, are placed and end."""

    hosts: list[HostSlots]
    has_estimates: bool  # whether it is known how long jobs take
    now: int = 0
    running: dict[int, tuple[QueuedJob, Mapping[str, int], int]] = field(default_factory=dict)
    started: dict[str, int] = field(default_factory=dict)
    promised: dict[str, float] = field(default_factory=dict)  # the latest start of each first blocked job

    def run_pass(self, queue: list[QueuedJob], durations: Mapping[str, int]) -> PlacementPass:
        """Run one pass and start the jobs that it places."""
        self.running = {number: run for number, run in self.running.items() if run[2] > self.now}
        used = Counter[str]()
        for _, slots, _ in self.running.values():
            used.update(slots)
        hosts = [
            HostSlots(host.host, host.kind, host.free[used[host.host] :], host.capacity, host.peers)
            for host in self.hosts
        ]
        attempts = [
            LiveAttempt(number, job.order, slots, float(end - self.now) if self.has_estimates else None)
            for number, (job, slots, end) in self.running.items()
        ]
        decision = place_jobs(queue, hosts, attempts)
        jobs = {job.job_id: job for job in queue}
        for placement in decision.placements:
            slots = {share.host: len(share.slots) for share in placement.shares}
            end = self.now + durations[placement.job_id]
            self.running[len(self.started)] = jobs[placement.job_id], slots, end
            self.started[placement.job_id] = self.now
        return decision


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
def test_a_blocked_job_starts_by_its_shadow_time_and_every_job_starts(
    sizes: list[int], jobs: list[tuple[int, int, int, str]], has_estimates: bool
) -> None:
    """With true estimates it starts by its reserved time. Without, when all that ran as it became first has ended."""
    cluster = Cluster(
        [HostSlots(f"h{n}", "gpu", tuple(range(size)), size, "a") for n, size in enumerate(sizes)], has_estimates
    )
    durations = {f"j{number:02}": lasts for number, (_, _, lasts, _) in enumerate(jobs)}
    arrivals: dict[int, list[QueuedJob]] = {}
    at = 0
    for number, (after, gpus, lasts, placement) in enumerate(jobs):
        at += after
        estimate_s = float(lasts) if has_estimates else None
        job = QueuedJob(
            f"j{number:02}", (-50, float(at), f"j{number:02}"), SlotRequest(gpus, placement=placement), estimate_s
        )
        arrivals.setdefault(at, []).append(job)
    queue: list[QueuedJob] = []
    for now in range(at + sum(durations.values()) + 1):
        cluster.now = now
        queue += arrivals.get(now, [])
        decision = cluster.run_pass(queue, durations)
        queue = [job for job in queue if job.job_id not in cluster.started]
        for first in decision.reservations[:1]:
            last_end = max(end for _, _, end in cluster.running.values())
            cluster.promised.setdefault(first.job_id, now + first.at_s if has_estimates else last_end)
    for job_id, latest in cluster.promised.items():
        assert cluster.started[job_id] <= latest
    capacity = {one.host: one.capacity for one in cluster.hosts}
    assert [job.job_id for job in queue if holds(job.request, cluster.hosts, capacity)] == []
