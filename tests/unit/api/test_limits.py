"""Rate limits: what token buckets hold, how fast they refill, how many are kept, and who shares one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from api.access.buckets import Buckets
from api.access.rate_limits import RateLimits
from api.problems import TooManyRequests
from jobs.model.scopes import Scope
from jobs.people.tokens import Bearer
from jobs.runtime.settings import Settings


class Clock:
    """A clock that moves only when a test sets it."""

    def __init__(self) -> None:
        self.now = 1e6

    def __call__(self) -> float:
        return self.now


def test_bucket_holds_two_seconds_of_requests_and_refills_at_its_rate() -> None:
    clock = Clock()
    buckets = Buckets(2.0, clock=clock)
    assert [buckets.take("a", 5) == 0 for _ in range(11)] == [True] * 10 + [False]
    assert buckets.take("a", 5) == pytest.approx(0.2)
    assert buckets.take("b", 5) == 0
    clock.now += 0.2
    assert [buckets.take("a", 5) == 0 for _ in range(2)] == [True, False]
    clock.now += 1000
    assert [buckets.take("a", 5) == 0 for _ in range(11)] == [True] * 10 + [False]
    assert (buckets.take("slow", 0.1), buckets.take("slow", 0.1)) == (0, pytest.approx(10)), "it holds one request"


@given(st.lists(st.floats(0, 3), max_size=200), st.floats(0.2, 50))
def test_no_key_gets_more_than_its_rate_and_one_burst(pauses: list[float], per_s: float) -> None:
    clock = Clock()
    buckets = Buckets(2.0, clock=clock)
    started, taken_count = clock.now, 0
    for pause in pauses:
        clock.now += pause
        wait_s = buckets.take("a", per_s)
        taken_count += wait_s == 0
        if wait_s:  # after this wait the next request is allowed
            clock.now += wait_s + 1e-6
            assert buckets.take("a", per_s) == 0
            taken_count += 1
    assert taken_count <= per_s * (clock.now - started) + max(2 * per_s, 1) + 1e-3


def test_full_or_oldest_buckets_are_forgotten_when_there_are_too_many() -> None:
    clock = Clock()
    buckets = Buckets(2.0, most=3, clock=clock)
    for key in "abc":
        assert buckets.take(key, 0.1) == 0
    assert buckets.take("d", 0.1) == 0  # the oldest makes room
    assert len(buckets) == 3
    assert buckets.take("d", 0.1) > 0
    assert buckets.take("c", 0.1) > 0
    clock.now += 100  # all buckets are full again, so forgetting them loses nothing
    assert buckets.take("e", 0.1) == 0
    assert len(buckets) == 1


@pytest.mark.parametrize(("limit", "tabs"), [(None, 7), (15.0, 1)])
def test_open_tabs_of_the_page_stay_below_the_rate_limit(limit: float | None, tabs: int) -> None:
    """All tabs open at once, and then poll for a minute as often as docs/access.md says."""
    clock = Clock()
    limits, session = RateLimits(Settings(), clock=clock), Bearer("a", "1", "session", Scope.READ, limit)
    for _ in range(tabs * 25):
        limits.charge(session)
    for _ in range(60 * tabs * 5):
        clock.now += 1 / (tabs * 5)
        limits.charge(session)


@pytest.mark.parametrize(
    ("first", "second", "is_shared"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("::ffff:10.0.0.1", "::ffff:10.0.0.2", False),
        ("testclient", None, False),
    ],
)
def test_ipv6_addresses_of_one_network_share_a_limit(first: str, second: str | None, is_shared: bool) -> None:
    limits = RateLimits(Settings(auth_failures_per_s=0.01), clock=Clock())
    limits.charge_attempt(first)
    if is_shared:
        with pytest.raises(TooManyRequests) as raised:
            limits.charge_attempt(second)
        assert raised.value.headers["Retry-After"] == "100"
        assert raised.value.detail == "your address may send 0.01 refused tokens a second; wait 100 s"
    else:
        limits.charge_attempt(second)


def test_all_tokens_of_a_user_share_a_limit() -> None:
    limits = RateLimits(Settings(rate_limit_per_s=10, user_rate_limit_per_s=25), clock=Clock())
    bearers = [Bearer("a", str(number), "bearer", Scope.READ) for number in range(5)]
    for number in range(50):
        limits.charge(bearers[number % 5])
    for bearer in bearers:
        with pytest.raises(TooManyRequests, match="all tokens of a together may send 25 requests a second"):
            limits.charge(bearer)
    limits.charge(Bearer("b", "b", "bearer", Scope.READ))
    limits.charge(Bearer("a", "admin", "bearer", Scope.ADMIN))
    for _ in range(60):
        limits.charge(Bearer("c", "9", "bearer", Scope.READ, 50.0))  # a higher limit of its own


def test_changes_of_a_day_are_limited_and_a_study_counts_its_jobs() -> None:
    clock = Clock()
    limits, alice = RateLimits(Settings(changes_per_day=86_400), clock=clock), Bearer("a", "1", "bearer", Scope.SUBMIT)
    limits.charge_changes(alice)
    limits.add_changes(alice, 17_279)  # a fifth of a day's
    with pytest.raises(TooManyRequests, match="a may make 86,400 changes a day") as raised:
        limits.charge_changes(alice)
    assert raised.value.headers["Retry-After"] == "1"
    clock.now += 2
    limits.charge_changes(alice)
    limits.charge_changes(Bearer("admin", "2", "bearer", Scope.ADMIN))


def test_requests_put_back_can_be_taken_again_and_a_cost_above_what_there_is_delays_the_next() -> None:
    clock = Clock()
    buckets = Buckets(2.0, clock=clock)
    for _ in range(50):
        assert buckets.take("b", 5) == 0
        buckets.put_back("b", 5)
    buckets.put_back("nobody", 5)
    assert len(buckets) == 1
    assert buckets.take("a", 5, cost=30) == 0
    assert buckets.take("a", 5) == pytest.approx(4.2)
    clock.now += 4.2
    assert buckets.take("a", 5) == 0
    buckets.add_cost("a", 5, 10)
    assert buckets.take("a", 5) == pytest.approx(2.2)
