"""While slots are taken, the hosts are found as if every host was looked at again."""

import random

import pytest

from jobs.scheduling.fitting import Cluster
from jobs.scheduling.slots import ClassSlots, HostSlots, SlotClass, SlotRequest


def a_cluster(numbers: random.Random) -> Cluster:
    """Some hosts, with GPUs of one model or two, of which some are free."""
    hosts = []
    for number in range(numbers.randint(1, 8)):
        classes = []
        for model in numbers.sample(["A", "B"], numbers.randint(1, 2)):
            capacity = numbers.randint(1, 8)
            free = tuple(sorted(numbers.sample(range(capacity), numbers.randint(0, capacity))))
            classes.append(ClassSlots(SlotClass(f"h{number}", "gpu", model), free, capacity))
        hosts.append(HostSlots(f"h{number}", tuple(classes), numbers.choice([None, "peers"])))
    return Cluster(hosts)


def a_request(numbers: random.Random, cluster: Cluster) -> SlotRequest:
    return SlotRequest(
        numbers.choice([1, 1, 2, 3, 4, 8]),
        placement=numbers.choice(["pack", "pack", "single_host", "spread"]),
        mixed_gpus=numbers.random() < 0.3,
        gpu_model=numbers.choice([None, None, "A", "B"]),
        last_hosts=(numbers.choice([*cluster.hosts]),) if numbers.random() < 0.2 else (),
    )


@pytest.mark.parametrize("seed", range(100))
def test_what_is_left_fits_as_a_copy_of_it_does(seed: int) -> None:
    numbers = random.Random(seed)  # noqa: S311 - nothing secret
    cluster = a_cluster(numbers)
    for _ in range(40):
        request = a_request(numbers, cluster)
        shares = cluster.fit(request, cluster.left)
        assert shares == cluster.fit(request, dict(cluster.left))
        if shares is not None:
            cluster.take(shares)
        assert cluster.number_left == sum(cluster.left.values())
